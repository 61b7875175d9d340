"""The invariants of messages that appear at a time of their own: promises P17 to P20.

Each yields one sentence for each violation, as those of ``invariants`` do.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from hourhand.actors.model.task.key import TaskKey
from tests.simulation.door_facts import NEVER_MS, SLACK_MS, DoorFacts, place_of
from tests.simulation.door_history import InCommitted, Put, SentLater
from tests.simulation.history import RowStored
from tests.simulation.judged import Complaints, Run

REACTION_MS = 2_000.0
"""Time in which a record of the in-topic is decided while nothing disturbs it."""
BELIEVED_MS = 25_000.0
"""A record that was read later than this counts from when it was read."""


def p17_what_the_relay_took_appears(run: Run) -> Complaints:
    """Each message appears, byte for byte, and once where nothing failed; no offset is committed
    before that is certain; what cannot be used is put aside.
    """
    facts = run.doors
    if facts is None:
        return
    for commit in run.history.of(InCommitted):
        if commit.undurable:
            yield (
                f"in-topic {commit.partition} was committed up to {commit.next_offset} at"
                f" {commit.at_ms:.0f} while {commit.undurable} were not durable"
            )
    for put in facts.puts:
        due = not put.fits if put.action else True
        if facts.is_aside(put) != due and not (put.action and put.fits is None):
            yield f"record {_shown(put)} was {'not ' if due else ''}put aside"
    by_id = facts.by_id()
    for put in facts.puts:
        missing = put.action == "schedule" and put.value not in facts.appeared
        missing = missing and not facts.is_aside(put)
        if missing and not any(_may_withhold(facts, other, put) for other in by_id[put.id]):
            yield f"{_shown(put)} of {put.id} never appeared"
    for sent in run.history.of(SentLater):
        if sent.value not in facts.appeared:
            yield f"{sent.value!r} was to be sent at {sent.due_ms} and never appeared"
    yield from _strange(run, facts)


def _shown(put: Put) -> str:
    return f"{put.value[:12]!r} ({put.partition}/{put.offset})"


def _may_withhold(facts: DoorFacts, other: Put, put: Put) -> bool:
    """True if another record of the id may be why a message does not appear."""
    if other is put or (_precedes(other, put) and other.action != "schedule"):
        return False
    decided_ms = facts.decided_ms(put)
    if other.action == "schedule":
        gone_ms = facts.gone_ms(other) + facts.apart_ms + SLACK_MS * facts.run.pace
        return other.at_ms <= decided_ms and put.at_ms <= gone_ms
    return other.action == "cancel" and facts.decided_ms(other) >= put.at_ms


def _precedes(one: Put, other: Put) -> bool:
    return one.partition == other.partition and one.offset < other.offset


def _strange(run: Run, facts: DoorFacts) -> Complaints:
    """Find what appeared otherwise than it was asked for, or more often."""
    asked = {put.value: (put.key, tuple(put.headers)) for put in facts.puts}
    asked |= {entry.value: (entry.key, ()) for entry in run.history.of(SentLater)}
    for value, appearances in facts.appeared.items():
        first = appearances[0]
        known = asked.get(value or b"")
        unacknowledged = (value or b"").startswith(b"later")
        if known is None and not unacknowledged:
            yield f"{value!r:.30} appeared and nobody asked for it"
        if known is not None and known != (first.key, tuple(first.headers)):
            yield f"{value!r:.30} appeared with {first.key!r} and {first.headers}"
        if facts.unhurt and len(appearances) > 1:
            yield f"{value!r:.30} appeared {len(appearances)} times though nothing failed"
        for earlier, later in pairwise(appearances):
            if earlier.attempt == later.attempt:
                yield f"{value!r:.30} was produced twice by attempt {later.attempt}"


def p18_never_before_its_time(run: Run) -> Complaints:
    """No message appears before its deadline less the advance, and no timer pops before its
    start and so many intervals.
    """
    facts = run.doors
    if facts is None:
        return
    by_id = facts.by_id()
    for put in facts.puts:
        moved = [o.due_ms for o in by_id.get(put.id, ()) if o.action == "reschedule"]
        earliest_ms = min([put.due_ms, *moved]) - run.advance_ms
        for each in facts.appeared.get(put.value, ()) if put.action == "schedule" else ():
            if (early_ms := earliest_ms - facts.latest_wall_ms(each)) > 0:
                yield f"{_shown(put)} appeared {early_ms} ms early"
    for sent in run.history.of(SentLater):
        for each in facts.appeared.get(sent.value, ()):
            if (early_ms := sent.due_ms - facts.latest_wall_ms(each)) > 0:
                yield f"{sent.value!r} appeared {early_ms} ms early"
    calls = facts.calls()
    for changes in facts.timer_changes().values():
        for change in changes:
            for call in calls.get(f"{change.timer_id}/{change.number}".encode(), ()):
                assert change.rule is not None, "its body says so"
                due_ms = change.start_ms + call.number * change.rule.interval_ms
                if (early_ms := due_ms - facts.latest_wall_ms(call)) > 0:
                    yield f"pop {call.number} of {call.body!r} came {early_ms} ms early"


def p19_one_message_for_each_id(run: Run) -> Complaints:
    """While a message of an id waits no other one of it appears; cancelled and moved messages
    do as they are told.
    """
    facts = run.doors
    if facts is None:
        return
    for puts in facts.by_id().values():
        for put in puts:
            if put.action != "schedule":
                continue
            for other in puts:
                if other is not put and other.action == "schedule":
                    yield from _both(facts, put, other, puts)
            yield from _untouched(facts, put, puts)


def _both(facts: DoorFacts, put: Put, other: Put, puts: Sequence[Put]) -> Iterator[str]:
    """Judge a message, and another that came while it certainly waited."""
    margin_ms = facts.apart_ms + SLACK_MS * facts.run.pace
    moved = [each.due_ms for each in puts if each.action == "reschedule"]
    waits_until_ms = min([put.due_ms, *moved]) - facts.run.advance_ms - facts.run.wall_at_start_ms
    if not put.at_ms + margin_ms < other.at_ms < waits_until_ms - margin_ms:
        return
    if any(_late_read(facts, each) for each in (put, other)):
        return
    if facts.decided_ms(other) > waits_until_ms - margin_ms:
        # It was read so late that the first one had been passed on before it was looked at.
        return
    appears, shown = put.value in facts.appeared, (_shown(put), _shown(other))
    if other.value in facts.appeared and appears:
        cancels = [each for each in puts if each.action == "cancel"]
        # A cancel between the two lets the id go; it then never appears.
        if facts.first_ms(put) > other.at_ms + margin_ms or not cancels:
            yield f"{shown[1]} of {put.id} appeared though {shown[0]} waited"
    elif (
        other.value in facts.appeared
        and _precedes(put, other)
        and facts.unhurt
        and all(each.action == "schedule" for each in puts)
        # Nothing came before it, so nothing else can have waited.
        and put is puts[0]
    ):
        yield f"{shown[1]} of {put.id} appeared instead of {shown[0]}, which came first"


def _late_read(facts: DoorFacts, put: Put) -> bool:
    return facts.came_ms(put) - facts.wall_ms(put.at_ms) > BELIEVED_MS


def _untouched(facts: DoorFacts, put: Put, puts: Sequence[Put]) -> Iterator[str]:
    """Judge a message that was cancelled or moved, with nothing else about its id."""
    controls = [each for each in puts if each.action != "schedule"]
    if len(controls) != 1 or len(puts) != 2:
        return
    (control,) = controls
    due_ms = put.due_ms - facts.run.advance_ms - facts.run.wall_at_start_ms
    reaction_ms = REACTION_MS * facts.run.pace + facts.apart_ms
    in_time = put.at_ms + reaction_ms < control.at_ms < due_ms - reaction_ms
    if not in_time or not facts.calm(put.at_ms, due_ms):
        return
    appearances = facts.appeared.get(put.value, ())
    if control.action == "cancel" and appearances:
        yield f"{_shown(put)} appeared although {put.id} was cancelled at {control.at_ms:.0f}"
    for each in appearances:
        if control.action == "reschedule" and each.wall_ms < control.due_ms - facts.run.advance_ms:
            yield f"{_shown(put)} appeared at {each.wall_ms}, it was moved to {control.due_ms}"


def p20_one_key_keeps_its_order(run: Run) -> Complaints:
    """Messages of one key and one deadline appear in the order in which they stand."""
    facts = run.doors
    if facts is None:
        return
    stored: dict[TaskKey, float] = {}
    for row in run.history.of(RowStored):
        stored.setdefault(row.key, row.at_ms)
    keys = {key.uniqueness_key: key for key in facts.tasks if _is_delivery(key)}
    moved = {put.id for put in facts.puts if put.action == "reschedule"}
    groups: dict[tuple[int, bytes, int], list[Put]] = defaultdict(list)
    for put in facts.puts:
        if put.action == "schedule" and put.key is not None and put.id not in moved:
            groups[put.partition, put.key, put.due_ms].append(put)
    for puts in groups.values():
        there = [put for put in puts if put.value in facts.appeared]
        for one, other in pairwise(there):
            if facts.first_ms(other) >= facts.first_ms(one):
                continue
            known = [keys.get(place_of(each), _NO_KEY) for each in (one, other)]
            known_ms = max(stored.get(key, NEVER_MS) for key in known)
            due_ms = one.due_ms - run.advance_ms - run.wall_at_start_ms - facts.apart_ms
            if facts.unhurt or known_ms + SLACK_MS * run.pace < due_ms:
                yield f"{_shown(other)} appeared before {_shown(one)} of the same key and deadline"


_NO_KEY = TaskKey(0, "", "")


def _is_delivery(key: TaskKey) -> bool:
    return key.ordering_id.startswith("hourhand:send:")
