"""relay_1k to relay_8k, and relay_4k_up: how late messages appear that are delayed by headers.

Messages come at a steady rate, each due 3 to 10 s later, on 16 partitions; one node passes them
on.  Lateness is the time at which the broker appended a message to the out-topic less its
deadline, on one clock.  Missing, early and doubled messages are counted and shown.

The node runs on one core: an interpreter has work for no more, and its threads wait for each
other where each runs on another one.  The servers are the family's own, with collectors of short
pauses; they are warmed with 2,000 a second for a minute or two.  ``relay_4k_up`` is on servers as
``make up`` starts them, with a node on every core.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.bench import Bench
from benchmarks.figures import Line
from benchmarks.messages import (
    P999_MS_MAX,
    curve_of,
    lines_of,
    passed_on,
    summary_of,
    touch,
)
from hourhand import Settings
from hourhand.scheduler import wiring
from hourhand.scheduler.configuration.door_settings import RelaySettings

RATES = {"relay_1k": 1_000, "relay_2k": 2_000, "relay_4k": 4_000, "relay_8k": 8_000}
_UP, _UP_RATE, _UP_P999_MS_MAX = "relay_4k_up", 4_000, 200.0
MEASURES = (*RATES, _UP)
_JUDGED = frozenset({"relay_1k", "relay_2k", "relay_4k"})
_FIRST_RATE = 2_000


def run(bench: Bench) -> list[Line]:
    """Take the measures that are wanted, at the rates of this version."""
    lines = _on_one_core(bench) if bench.wanted & RATES.keys() else []
    return lines + (_as_up(bench) if _UP in bench.wanted else [])


def _on_one_core(bench: Bench) -> list[Line]:
    rates = bench.sizes.relay_rates
    wanted = [name for name in RATES if name in bench.wanted]
    # The smallest version has a rate of its own, so that the harness is tried at all.
    chosen = {name: RATES[name] for name in wanted if RATES[name] in rates}
    lines: list[Line] = []
    with bench.servers.of_short_pauses() as servers:
        bench = replace(bench, servers=servers)
        bench.say(f"relay, not counted: {summary_of(passed_on_at(bench.warming(), _FIRST_RATE))}")
        for name, rate in (chosen or {wanted[0]: rates[0]}).items():
            rounds = []
            for number in range(1, bench.sizes.relay_rounds + 1):
                rounds.append(passed_on_at(bench, rate))
                bench.say(f"round {number}: {name}: {summary_of(rounds[-1])}")
            bench.curves[f"{name} hourhand"] = curve_of(rounds)
            limit = P999_MS_MAX if name in _JUDGED else None
            lines += lines_of(name, rounds, p999_ms_max=limit)
    return lines


def _as_up(bench: Bench) -> list[Line]:
    rate = min(_UP_RATE, max(bench.sizes.relay_rates))
    rounds = []
    with bench.servers.as_up() as servers:
        bench = replace(bench, servers=servers)
        # Their compilers do little, and have done it soon.
        warmed = passed_on_at(bench.uncounted(), _FIRST_RATE, one_core=False)
        bench.say(f"{_UP}, not counted: {summary_of(warmed)}")
        for number in range(1, bench.sizes.lateness_rounds + 1):
            rounds.append(passed_on_at(bench, rate, one_core=False))
            bench.say(f"round {number}: {_UP}: {summary_of(rounds[-1])}")
    return lines_of(_UP, rounds, p999_ms_max=_UP_P999_MS_MAX)


def passed_on_at(bench: Bench, rate: int, *, one_core: bool = True) -> dict[str, Any]:
    """Have one node pass messages on at a rate; return what appeared, as the sink counted it."""
    with bench.servers.installation("relay") as plain, _topics(plain) as settings:
        programs = ("relay_node", "relay_source")
        return passed_on(
            bench, settings, rate, programs=programs, clock="appended", one_core=one_core
        )


@contextlib.contextmanager
def _topics(plain: Settings) -> Iterator[Settings]:
    """Make in-topic and out-topic, the latter stamped by the broker, and remove them."""
    name = plain.topic.name
    relay = RelaySettings(in_topic=f"{name}-in", out_topic=f"{name}-out", group_id=f"{name}-in")
    settings = plain.model_copy(update={"relay": relay})
    admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap_servers})
    stamped = {"message.timestamp.type": "LogAppendTime"}
    out = NewTopic(relay.out_topic, settings.topic.partitions, 1, config=stamped)
    for made in admin.create_topics([out]).values():
        made.result(30)
    wiring.create_relay_topics(settings)
    touch(settings, relay.out_topic)
    try:
        yield settings
    finally:
        for removed in admin.delete_topics([relay.in_topic, relay.out_topic]).values():
            removed.result(30)
