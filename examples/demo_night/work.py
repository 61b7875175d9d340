"""The user code of the demonstration: three kinds that call one service, each with a policy of its
own for used-up attempts.

The service is away while the file ``AWAY`` is in the folder.  Each call that it served is a line of
the file ``CALLS``.
"""

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import tenacity

from hourhand import Hourhand, RetryPolicy, Task

FOLDER = "NIGHT_FOLDER"
"""The environment's variable that names the folder."""
AWAY, CALLS = "service-is-away", "calls.jsonl"

_WAIT = tenacity.wait_fixed(timedelta(milliseconds=500))
_folder = Path(os.environ.get(FOLDER, "."))

app = Hourhand()


class ServiceAway(Exception):
    """The service refused the connection."""


def _call(kind: str, task: Task) -> None:
    if (_folder / AWAY).exists():
        raise ServiceAway("connection refused")
    line = json.dumps({"kind": kind, "key": str(task.key), "pid": os.getpid()})
    with (_folder / CALLS).open("a", encoding="utf-8") as calls:
        # One write to a file opened for appending is whole, whatever other processes write.
        calls.write(f"{line}\n")


@app.task("charge", retry=RetryPolicy(attempts_max=2, wait=_WAIT, on_exhausted="block"))
def charge(payload: dict[str, Any], task: Task) -> None:
    """Charge a card: nothing of the customer may go on before an operator has looked."""
    del payload
    _call("charge", task)


@app.task("mail", retry=RetryPolicy(attempts_max=2, wait=_WAIT, on_exhausted="skip"))
def mail(payload: dict[str, Any], task: Task) -> None:
    """Send a mail: the next one does not wait for it."""
    del payload
    _call("mail", task)


@app.task("invoice", retry=RetryPolicy(attempts_max=2, wait=_WAIT, on_exhausted="dead_letter"))
def invoice(payload: dict[str, Any], task: Task) -> None:
    """Write an invoice: somebody reads the dead letters in the morning."""
    del payload
    _call("invoice", task)
