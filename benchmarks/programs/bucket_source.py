"""Calls ``send_later`` at a steady rate, when told to go."""

import random
import time
from concurrent.futures import Future

from benchmarks.messages import KEYS, value_of
from benchmarks.program import tell, told, wait_for_command
from benchmarks.records import wall_s
from hourhand import SchedulerClient, Settings
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.tasks.receipt import Receipt

_DELAYS_MS = (50, 1_000)
_STEP_S = 0.002
_ACKNOWLEDGED_S = 120.0
_UNSEEN_MS = 3_600_000


def main() -> None:
    """Get ready, wait for the word, and send."""
    spec = told()
    settings = Settings(**spec["settings"])
    with SchedulerClient(settings) as client:
        # Sent until long after the end: what the first one waits for, the connection and where
        # the buckets are, is not the lateness of those after it.
        later = from_millis(int(wall_s() * 1000) + _UNSEEN_MS)
        first = client.send_later(None, b"", settings.relay.out_topic, later)
        first.result(_ACKNOWLEDGED_S)
        tell("ready")
        if wait_for_command("go"):
            began_s = wall_s()
            _send(client, settings.relay.out_topic, spec["count"], spec["rate"])
            tell("done", began_s=began_s, ended_s=wall_s())


def _send(client: SchedulerClient, topic: str, count: int, rate: float) -> None:
    rng = random.Random(17)
    began_s = time.monotonic()
    sent: list[Future[Receipt]] = []
    while len(sent) < count:
        upto = min(count, int((time.monotonic() - began_s) * rate) + 1)
        while len(sent) < upto:
            due_ms = int(wall_s() * 1000) + rng.randrange(*_DELAYS_MS)
            value = value_of(len(sent), due_ms)
            key = b"key-%d" % rng.randrange(KEYS)
            sent.append(client.send_later(key, value, topic, from_millis(due_ms)))
        time.sleep(_STEP_S)
    for each in sent:
        each.result(_ACKNOWLEDGED_S)


if __name__ == "__main__":
    main()
