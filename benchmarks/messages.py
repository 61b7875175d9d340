"""Messages that wait for their deadlines: how they are numbered, passed on, counted and shown.

Both kinds of storage share it.  A message's value begins with its number and its deadline, so a
reader needs to know nothing else.
"""

import struct
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Producer

from benchmarks.bench import READY_S, RUN_S, Bench
from benchmarks.figures import Figure, Goal, Line
from benchmarks.program import Program
from hourhand import Settings

SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
P999_MS_MAX = 50.0
SETTLE_S = 1
"""Lateness in the first second is not judged: topics are new to broker and node."""
_TOUCHES = 3
_TOUCH = b"t" * 8_000
_ACKNOWLEDGED_S = 30.0
KEYS = 10_000
_COUNTED = ("missing", "early", "doubled")
_HEAD = struct.Struct(">qq")
_PAD = b"v" * 184


def value_of(number: int, due_ms: int) -> bytes:
    """Return what a message carries: 200 bytes."""
    return _HEAD.pack(number, due_ms) + _PAD


def number_and_deadline(value: bytes | None) -> tuple[int, int]:
    """Return a message's number and when it was due, in UTC milliseconds."""
    number, due_ms = _HEAD.unpack_from(value or b"")
    return number, due_ms


def touch(settings: Settings, topic: str) -> None:
    """Append to each partition of a new topic until the broker has written to its index.

    The broker maps ten megabytes for each index, and the system clears them when they are first
    written to: after some kilobytes of records, for all partitions of a topic within a second,
    in which the broker takes a core for nothing else.
    """
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers, "acks": "all"})
    for _ in range(_TOUCHES):
        for partition in range(settings.topic.partitions):
            producer.produce(topic, _TOUCH, partition=partition)
        # Acknowledged one by one: an append is entered in the index by the next.
        if producer.flush(_ACKNOWLEDGED_S):
            raise RuntimeError(f"the broker did not acknowledge every record of {topic}")


def passed_on(
    bench: Bench,
    settings: Settings,
    rate: int,
    *,
    programs: tuple[str, str],
    clock: str,
    one_core: bool = True,
) -> dict[str, Any]:
    """Have one node pass messages on; return what appeared, as the sink counted it.

    ``programs`` are the node and the source of messages; ``clock`` says when a message has
    appeared: once it is "appended", as the broker says, or once it is "read".  The node runs on
    ``one_core`` where that is one of a relay and not told otherwise.
    """
    spec = {
        "settings": settings.model_dump(mode="json"),
        "count": int(rate * bench.sizes.relay_s),
        "rate": rate,
        "clock": clock,
        "one_core": one_core,
    }
    node_program, source_program = programs
    with (
        Program(f"benchmarks.programs.{node_program}", spec, bench.folder) as node,
        Program("benchmarks.programs.message_sink", spec, bench.folder) as sink,
        Program(f"benchmarks.programs.{source_program}", spec, bench.folder) as source,
    ):
        for program in (node, sink, source):
            program.expect("ready", READY_S)
        if bench.profiler is not None:
            bench.profiler(node.pid)
        source.say("go")
        sent = source.expect("done", RUN_S)
        return {**sink.expect("done", RUN_S), "seconds": sent["ended_s"] - sent["began_s"]}


def lines_of(
    name: str, rounds: Sequence[dict[str, Any]], *, p999_ms_max: float | None = P999_MS_MAX
) -> list[Line]:
    """Return the lines of a measure; its p99.9 has a goal unless that is None.

    Missing, early and doubled messages are counted over all rounds: a median would hide them.
    """
    lines = []
    for share in SHARES:
        goal = None
        if share == "p99.9" and p999_ms_max is not None:
            goal = Goal("at most", p999_ms_max, "value")
        figure = Figure.of([found[share] for found in rounds])
        lines.append(Line(name, figure, f"ms, {share}", goal=goal))
    for what in _COUNTED:
        goal = Goal("at most", 0.0, "value")
        figure = Figure.of([sum(found[what] for found in rounds)])
        lines.append(Line(name, figure, f"{what} messages", goal=goal))
    sums = {each: sum(found[each] for found in rounds) for each in ("sent", *_COUNTED, "seconds")}
    sums["seconds_to_send"] = sums.pop("seconds")
    lines[0].detail.update(sums)
    return lines


def curve_of(rounds: Sequence[dict[str, Any]]) -> list[tuple[float, float]]:
    """Return how late which share of messages is, in milliseconds: of each, the rounds' median."""
    curves = zip(*(found["curve"] for found in rounds), strict=True)
    return [(same[0][0], Figure.of([ms for _, ms in same]).value) for same in curves]


def summary_of(found: dict[str, Any]) -> str:
    """Return what appeared, in a line for people."""
    late = ", ".join(f"{share} {found[share]:.1f}" for share in SHARES)
    counts = ", ".join(f"{each} {found[each]:,}" for each in _COUNTED)
    return f"{found['sent']:,} sent in {found['seconds']:.1f} s, {counts}; ms late: {late}"
