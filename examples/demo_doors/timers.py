"""``make demo-timers``: timers that call back over HTTP, three nodes, one of them killed.

Timers are made over HTTP on every node; some are replaced, some deleted.  The endpoint that they
call, in this process, says what came, with which number, and when.
"""

import threading
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any, NamedTuple

import httpx
import typer

from examples.demo_doors.timing import quantiles, wall_s
from examples.demo_stage.checks import Check, count_check, show_checks
from examples.demo_stage.stage import Stage, on_servers, perform
from hourhand.actors.model.values.instant import parse_instant
from hourhand.scheduler.demo.node import NodeProcess

POPS = 5
_INTERVALS_S = (2, 3)
_KILL_WINDOW_S = 15.0
_QUIET_S = 180.0
_TIMEOUT_S = 60.0
READY_LINE = "timers are served on "
VARIABLES = {"HOURHAND_TIMERS__CALLBACK_TIMEOUT_MS": "30000"}
"""A callback that a busy machine answers late would be tried again, and seen twice."""


class Pop(NamedTuple):
    """A callback that came."""

    opaque: str
    number: int
    at_s: float


class _Server(ThreadingHTTPServer):
    """Lets many callbacks come at one moment."""

    request_queue_size = 1_000
    daemon_threads = True


class Endpoint:
    """Takes callbacks and answers each with 200."""

    def __init__(self) -> None:
        self.pops: list[Pop] = []
        pops = self.pops

        class Handler(BaseHTTPRequestHandler):
            """Notes a callback: its opaque text, its number, its time."""

            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                """Take one."""
                came_s = wall_s()
                length = int(self.headers["Content-Length"])
                body = self.rfile.read(length)
                if len(body) < length:
                    # The caller died during the call: this is not a callback.
                    return
                number = int(self.headers["X-Sequence-Number"])
                pops.append(Pop(body.decode(), number, came_s))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its base's name
                """Say nothing."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self._server.server_port}/pop"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Take no more."""
        self._server.shutdown()
        self._server.server_close()


@dataclass
class Asked:
    """Requests to the service."""

    due_s: dict[tuple[str, int], float] = field(default_factory=dict)
    """By opaque text and number: when each callback is due, as the service tells it."""
    never: set[str] = field(default_factory=set)
    """Opaque texts of timers that were deleted or replaced before their first pop."""


def body_of(uri: str, opaque: str, interval_s: int, pops: int) -> dict[str, Any]:
    """Return a request's body."""
    return {
        "timing": {"interval": interval_s, "repeat-for": interval_s * pops},
        "callback": {"http": {"uri": uri, "opaque": opaque}},
    }


def base_of(node: NodeProcess) -> str:
    """Return the address that a node said it serves."""
    return "http://" + node.output.partition(READY_LINE)[2].split(";")[0].strip()


def make_timers(
    nodes: list[NodeProcess],
    uri: str,
    count: int,
    intervals_s: tuple[int, ...] = _INTERVALS_S,
    *,
    change: bool = True,
) -> Asked:
    """Make timers on all nodes in turn; with ``change`` replace and delete some of them at once."""
    asked = Asked()
    clients = [httpx.Client(base_url=base_of(node), timeout=_TIMEOUT_S) for node in nodes]
    for number in range(count):
        http = clients[number % len(clients)]
        opaque, interval_s = f"timer-{number}", intervals_s[number % len(intervals_s)]
        made = http.post("/timers", json=body_of(uri, opaque, interval_s, POPS))
        made.raise_for_status()
        path = made.headers["location"]
        if change and number % 10 == 3:
            asked.never.add(opaque)
            opaque = f"{opaque}-replaced"
            http.put(path, json=body_of(uri, opaque, interval_s, POPS)).raise_for_status()
        elif change and number % 9 == 4:
            asked.never.add(opaque)
            http.delete(path).raise_for_status()
            continue
        following = http.get(path).raise_for_status().json()["next-pop"]
        first_s = parse_instant(following["time"]) / 1000
        first_s -= (following["sequence-number"] - 1) * interval_s
        for pop in range(POPS):
            asked.due_s[opaque, pop + 1] = first_s + pop * interval_s
    for client in clients:
        client.close()
    return asked


def judge(asked: Asked, pops: list[Pop], kills_s: list[float]) -> list[Check]:
    """Compare what came with what was asked for."""
    counted = Counter((each.opaque, each.number) for each in pops)
    first_s: dict[tuple[str, int], float] = {}
    for each in pops:
        first_s.setdefault((each.opaque, each.number), each.at_s)
    repeated = [pop for pop, times in counted.items() if times > 1]
    at_kill = [pop for pop in repeated if any(_was_hit(first_s[pop], each) for each in kills_s)]
    early = [e for e in pops if e.at_s < asked.due_s.get((e.opaque, e.number), 0.0)]
    unknown = [pop for pop in counted if pop not in asked.due_s and pop[0] not in asked.never]
    return [
        Check(
            "distinct pops (timer, number)",
            f"{len(asked.due_s):,}",
            f"{len(counted.keys() & asked.due_s.keys()):,}",
            counted.keys() >= asked.due_s.keys(),
            [str(pop) for pop in asked.due_s if pop not in counted][:5],
        ),
        count_check("nobody asked for", unknown),
        count_check(
            "of a timer that was deleted or replaced", [p for p in counted if p[0] in asked.never]
        ),
        count_check("early", early),
        Check("again, same number: in flight at the kill", "any", f"{len(at_kill):,}", holds=True),
        count_check("again, for no such reason", [pop for pop in repeated if pop not in at_kill]),
    ]


def _was_hit(at_s: float, killed_s: float) -> bool:
    return killed_s - _KILL_WINDOW_S <= at_s <= killed_s + 1.0


def play(stage: Stage, timers: int) -> bool:
    """Let it happen, and judge it."""
    endpoint = Endpoint()
    command = ("timers", "--port", "0")
    try:
        nodes = stage.start(3, command, VARIABLES, READY_LINE)
        stage.say("three nodes serve timers: " + ", ".join(base_of(node) for node in nodes))
        asked = make_timers(nodes, endpoint.uri, timers)
        stage.say(f"{timers:,} timers were made, {POPS} pops each, some replaced or deleted")

        def line() -> str:
            seen = len({(each.opaque, each.number) for each in endpoint.pops})
            return f"pops {seen:>6,} of {len(asked.due_s):,}"

        def popped(share: float) -> bool:
            return len(endpoint.pops) >= share * len(asked.due_s)

        stage.watch(lambda: popped(0.4), _QUIET_S, line)
        stage.say("SIGKILL: one node dies, in the middle of whatever it does")
        killed_s = wall_s()
        stage.kill(nodes[0])
        stage.start(1, command, VARIABLES, READY_LINE)
        stage.say("and a new one has started")
        wanted = asked.due_s.keys()
        stage.watch(lambda: wanted <= {(e.opaque, e.number) for e in endpoint.pops}, _QUIET_S, line)
        # Time for what must not come to do so anyway.
        stage.watch(lambda: False, 3, line)
    finally:
        endpoint.close()
    pops = list(endpoint.pops)
    holds = show_checks(stage.console, "The callbacks that came", judge(asked, pops, [killed_s]))
    usual = [
        (each.at_s - asked.due_s[each.opaque, each.number]) * 1000
        for each in pops
        if each.at_s < killed_s and (each.opaque, each.number) in asked.due_s
    ]
    stage.console.print(f"  late before the kill: {quantiles(usual)}\n")
    return holds


def main(
    *,
    timers: Annotated[int, typer.Option(min=10, max=10_000, help="Timers made.")] = 200,
) -> None:
    """Run timers on real servers with three nodes, one of which is killed."""
    title = "Hourhand's timers on real Kafka and Cassandra"
    perform(title, on_servers(lambda stage, _: play(stage, timers)))


if __name__ == "__main__":
    typer.run(main)
