"""The invariant of recurring schedules: promise P23.

It yields one sentence for each violation, as those of ``invariants`` do.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hourhand.actors.model.operations.events import PartitionAssigned
from hourhand.actors.model.operations.ownership import CLOCKS_APART_MS
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.instant import parse_instant
from hourhand.scheduler.node.made_ahead import LATE_MS
from hourhand.scheduler.services.recurring.rule import RecurringRule
from tests.simulation.declared_invariants import a_declared_set_is_followed
from tests.simulation.declared_sets import NAMES
from tests.simulation.door_facts import NEVER_MS, SLACK_MS, Change, DoorFacts
from tests.simulation.history import RowStored, Started
from tests.simulation.judged import Complaints, Run, epoch_of

_ALLOWED = {"allow": NEVER_MS, "skip": 1, "buffer_one": 2}
"""Open occurrences beside which the next one is left out, by overlap policy."""


@dataclass(frozen=True, slots=True)
class _Occurrence:
    key: TaskKey
    due_ms: int
    """The time it stands for, by the wall clock."""
    triggered: bool
    stored_ms: float
    ahead: bool
    """True if it was made before any tick of its time or later change."""
    starts: Sequence[Started]


@dataclass(frozen=True, slots=True)
class _Life:
    """A rule from when it was set until something replaced it."""

    set_by: Change
    rule: RecurringRule
    later: Sequence[Change]
    """Changes after it, in the order of the log, up to the next one that ends it."""


def p23_each_occurrence_comes_once(run: Run) -> Complaints:
    """Each time of a rule makes one task as the overlap policy says, and no other time does;
    what is older than the catch-up window makes none. Declared ones are those of their set.
    """
    yield from a_declared_set_is_followed(run)
    facts = run.doors
    if facts is None:
        return
    ticks = _ticks(run)
    made, judged = _occurrences(facts, ticks)
    for name, asked in facts.schedule_changes().items():
        if name in NAMES:
            # An owner declares it.
            continue
        changes = list(_without_repeated(asked))
        lives = list(_lives(changes))
        occurrences = made.get(name, [])
        for each in occurrences:
            yield from _invented(facts, each, lives, changes)
        for life in lives:
            yield from _left_out(facts, life, occurrences, ticks[name], judged[name])
            own = [
                each
                for each in occurrences
                if not each.triggered
                and [one for one in lives if _may_make(facts, one, each.due_ms)] == [life]
            ]
            own_ahead = [each for each in own if each.ahead]
            own_ticked = [each for each in own if not each.ahead]
            sets = (c for c in changes if c.kind == "set" and c.offset > life.set_by.offset)
            replaced_ms = min((c.asked_ms for c in sets), default=NEVER_MS)
            late = list(_started_late(facts, own_ahead, replaced_ms))
            yield from _ahead_against_policy(facts, life.rule, late, own)
            yield from _ahead_though_missed(facts, life.rule, late, occurrences, ticks[name])
            yield from _against_policy(run, life.rule, own_ticked, ticks[name], facts.closed_ms)
            yield from _more_than_asked_for(facts, life.rule, own)


def _occurrences(
    facts: DoorFacts, ticks: dict[str, list[Started]]
) -> tuple[dict[str, list[_Occurrence]], dict[str, dict[int, TaskKey]]]:
    """Return the occurrences by name, and the times of those that were made ahead and closed
    without a start: a change cancelled them, or they overlapped.
    """
    stored: dict[TaskKey, float] = {}
    for row in facts.run.history.of(RowStored):
        stored.setdefault(row.key, row.at_ms)
    logged = _logged(facts)
    starts: dict[TaskKey, list[Started]] = defaultdict(list)
    for start in facts.run.started:
        starts[start.key].append(start)
    found: dict[str, list[_Occurrence]] = defaultdict(list)
    judged: dict[str, dict[int, TaskKey]] = defaultdict(dict)
    for key in facts.tasks:
        if key.ordering_id.startswith("s-"):
            name, _, text = key.uniqueness_key.partition("@")
            due_ms, triggered = parse_instant(text.removesuffix("!")), text.endswith("!")
            at_ms = stored.get(key, NEVER_MS)
            logged_ms = logged[key].timestamp_ms - facts.run.wall_at_start_ms
            ahead = not triggered and not any(
                each.at_ms <= logged_ms + 1 for each in _makers(ticks[name], due_ms)
            )
            # An earlier end is of the task that was made before it.
            is_closed = any(each.offset >= logged[key].offset for each in facts.run.completed[key])
            if ahead and not starts[key] and is_closed:
                if any(each.result == "dropped" for each in facts.run.completed[key]):
                    judged[name][due_ms] = key
                continue
            one = _Occurrence(key, due_ms, triggered, at_ms, ahead, starts[key])
            found[name].append(one)
    return found, judged


def _logged(facts: DoorFacts) -> dict[TaskKey, LogRecord]:
    """Return the record of each occurrence: the first one, or the first one after a change ended
    it, if it was made again.
    """
    first: dict[TaskKey, LogRecord] = {}
    for record, key in facts.records("s-"):
        ends = facts.run.completed[key]
        ended = (each.offset for each in ends if each.result in {"cancelled", "dropped"})
        before = first.get(key)
        if before is None or before.offset <= max(ended, default=-1) < record.offset:
            first[key] = record
    return first


def _ticks(run: Run) -> dict[str, list[Started]]:
    """Return the attempts of ticks and changes, by the schedule's name."""
    found: dict[str, list[Started]] = defaultdict(list)
    for each in run.started:
        _, _, name = each.key.ordering_id.partition("hourhand:recurring:")
        if name:
            found[name].append(each)
    return found


def _without_repeated(changes: Sequence[Change]) -> Iterator[Change]:
    """Leave out what sets a schedule to the rule that it has, which changes nothing."""
    rule = None
    for change in changes:
        if change.kind == "set":
            if change.rule == rule:
                continue
            rule = change.rule
        elif change.kind == "delete":
            rule = None
        yield change


def _lives(changes: Sequence[Change]) -> Iterator[_Life]:
    for place, change in enumerate(changes):
        if change.kind == "set":
            later = []
            for other in changes[place + 1 :]:
                later.append(other)
                if other.kind in {"set", "delete"}:
                    break
            yield _Life(change, RecurringRule.model_validate(change.rule or {}), later)


def _invented(
    facts: DoorFacts, each: _Occurrence, lives: Sequence[_Life], changes: Sequence[Change]
) -> Iterator[str]:
    if each.triggered:
        if not any(c.kind == "trigger" and c.asked_ms == each.due_ms for c in changes):
            yield f"{each.key} was made and nobody triggered it"
    elif not any(_may_make(facts, life, each.due_ms) for life in lives) and not (
        # A producer may send it once more, after a change had cancelled it.
        each.starts
        and all((start.partition, start.offset) in facts.run.sent_again for start in each.starts)
    ):
        yield f"{each.key} was made at a time that no rule names"


def _may_make(facts: DoorFacts, life: _Life, due_ms: int) -> bool:
    """True if a rule names a time while it may have been in force."""
    anchor_ms = life.set_by.asked_ms
    if due_ms <= anchor_ms or life.rule.next_after(due_ms - 1, anchor_ms) != due_ms:
        return False
    margin_ms = facts.apart_ms + SLACK_MS * facts.run.pace
    dead_from_ms = NEVER_MS
    for change in life.later:
        if change.kind == "resume" and change.asked_ms < due_ms:
            dead_from_ms = NEVER_MS
        elif change.kind in {"pause", "set", "delete"}:
            dead_from_ms = min(dead_from_ms, facts.wall_ms(change.done_ms))
    return due_ms < dead_from_ms + margin_ms


def _alive_times(life: _Life) -> Iterator[int]:
    """Yield the times at which a rule is certainly due."""
    anchor_ms, from_ms, resting = life.set_by.asked_ms, life.set_by.asked_ms, False
    ends = [c for c in life.later if c.kind in {"pause", "resume", "set", "delete"}]
    for change in [*ends, None]:
        if not resting:
            before_ms = NEVER_MS if change is None else change.asked_ms
            if change is not None and change.kind == "set":
                # An occurrence due in that millisecond is still the earlier rule's.
                before_ms += 1
            for due_ms in life.rule.times_after(from_ms, anchor_ms):
                if due_ms >= before_ms:
                    break
                yield due_ms
        if change is not None:
            resting = change.kind == "pause" or (resting and change.kind != "resume")
            from_ms = change.asked_ms if change.kind == "resume" and not resting else from_ms
            if change.kind in {"set", "delete"}:
                return


def _left_out(
    facts: DoorFacts,
    life: _Life,
    occurrences: Sequence[_Occurrence],
    ticks: Sequence[Started],
    judged: dict[int, TaskKey],
) -> Iterator[str]:
    """Find times that made no task though the policy has no reason for it."""
    rule, made = life.rule, {each.due_ms for each in occurrences if not each.triggered}
    taken = sum(each.due_ms > life.set_by.asked_ms for each in occurrences)
    if life.set_by.done_ms == NEVER_MS or (rule.count_max and taken >= rule.count_max):
        return
    for due_ms in _alive_times(life):
        if due_ms in made or _is_passed_over(rule, ticks, due_ms):
            continue
        allowed = _ALLOWED[rule.overlap]
        if due_ms in judged:
            key = judged[due_ms]
            # Otherwise the rule before it, which was still in force, left it out.
            is_its_own = facts.closed_ms(key) >= life.set_by.done_ms
            at_ms = due_ms - facts.run.wall_at_start_ms - facts.apart_ms
            blocked = _open_since(facts.run, occurrences, due_ms, at_ms) >= allowed
            if is_its_own and not blocked and not _changed_hands(facts, rule, key, at_ms):
                yield f"{life.set_by.name} ({rule.overlap}) left {due_ms} out at its start"
            continue
        attempts = _makers(ticks, due_ms)
        if not attempts:
            yield f"{life.set_by.name} had no tick at {due_ms}"
            continue
        blocked = any(
            _open_count(facts, occurrences, due_ms, each.at_ms)
            + _unsure_count(facts, judged, due_ms, each)
            >= allowed
            or taken + _waiting_count(facts, life, judged, due_ms, each.at_ms)
            >= (rule.count_max or NEVER_MS)
            for each in attempts
        )
        if not blocked:
            yield f"{life.set_by.name} ({rule.overlap}) left {due_ms} out for no reason"


def _changed_hands(facts: DoorFacts, rule: RecurringRule, key: TaskKey, at_ms: float) -> bool:
    """True if a node took the partition over so late that it leaves out what was due then."""
    partition = partition_of(key.ordering_id, facts.run.partitions)
    return any(
        isinstance(noted.event, PartitionAssigned)
        and noted.event.partition == partition
        and noted.at_ms + SLACK_MS > at_ms + rule.catch_up_ms
        for noted in facts.run.noted()
    )


def _open_since(run: Run, occurrences: Sequence[_Occurrence], due_ms: int, at_ms: float) -> int:
    """Count the earlier occurrences whose last attempts may have ended after a moment."""
    return sum(
        each.due_ms < due_ms
        and (not each.starts or max(_end_ms(run, start) for start in each.starts) >= at_ms)
        for each in occurrences
    )


def _makers(ticks: Sequence[Started], due_ms: int) -> Sequence[Started]:
    """Return what may have made the task of a time: its tick, or a change that was asked later."""
    return [
        each
        for each in ticks
        if each.key.scheduled_ms == due_ms
        or (each.key.scheduled_ms > due_ms and each.key.uniqueness_key.startswith("change:"))
    ]


def _is_passed_over(rule: RecurringRule, ticks: Sequence[Started], due_ms: int) -> bool:
    """True if a tick came so late that the time was older than the catch-up window."""
    return any(each.wall_ms + SLACK_MS - rule.catch_up_ms > due_ms for each in ticks)


def _open_count(
    facts: DoorFacts, occurrences: Sequence[_Occurrence], due_ms: int, at_ms: float
) -> int:
    """Count the occurrences that were not closed at a moment: earlier ones, and what an earlier
    rule had made for later.
    """
    return sum(
        (each.due_ms < due_ms or each.stored_ms < at_ms)
        and each.due_ms != due_ms
        and _last_closed_ms(facts.run, each.key) >= at_ms
        for each in occurrences
    )


def _unsure_count(facts: DoorFacts, judged: dict[int, TaskKey], due_ms: int, maker: Started) -> int:
    """Count the earlier ones that were left out at their starts, but later: no node can be sure of
    that within two differences of clocks.
    """
    return sum(
        earlier_ms < due_ms
        and maker.wall_ms - earlier_ms < 2 * CLOCKS_APART_MS + SLACK_MS
        and _last_closed_ms(facts.run, key) >= maker.at_ms
        for earlier_ms, key in judged.items()
    )


def _waiting_count(
    facts: DoorFacts, life: _Life, judged: dict[int, TaskKey], due_ms: int, at_ms: float
) -> int:
    """Count the earlier ones of a rule that were left out at their starts after a moment: until
    then they are of its count.
    """
    return sum(
        life.set_by.asked_ms < earlier_ms < due_ms and _last_closed_ms(facts.run, key) >= at_ms
        for earlier_ms, key in judged.items()
    )


def _last_closed_ms(run: Run, key: TaskKey) -> float:
    """Return when a key was last closed: one that a change cancelled and a later one made again
    was closed before.
    """
    return max((each.at_ms for each in run.completed[key]), default=NEVER_MS)


def _against_policy(
    run: Run,
    rule: RecurringRule,
    own: Sequence[_Occurrence],
    ticks: Sequence[Started],
    closed_ms: Callable[[TaskKey], float],
) -> Iterator[str]:
    """Find tasks of one rule that were made beside too many open ones, or too late."""
    allowed = _ALLOWED[rule.overlap]
    for each in own:
        attempts = _makers(ticks, each.due_ms)
        if not attempts:
            yield f"{each.key} was made by no tick"
            continue
        if min(tick.wall_ms for tick in attempts) > each.due_ms + rule.catch_up_ms:
            yield f"{each.key} was made though it was older than the catch-up window"
        beside = [
            sum(
                other.due_ms < each.due_ms
                and other.stored_ms < tick.at_ms
                and closed_ms(other.key) > _end_ms(run, tick)
                for other in own
            )
            for tick in attempts
        ]
        if min(beside) >= allowed:
            yield f"{each.key} ({rule.overlap}) was made beside {min(beside)} open ones"


def _more_than_asked_for(
    facts: DoorFacts, rule: RecurringRule, own: Sequence[_Occurrence]
) -> Iterator[str]:
    counted = (each for each in own if not _is_missed_after_all(facts, rule, each))
    for number, each in enumerate(sorted(counted, key=lambda one: one.due_ms), 1):
        if rule.count_max is not None and number > rule.count_max:
            yield f"{each.key} is number {number} of {rule.count_max}"


def _is_missed_after_all(facts: DoorFacts, rule: RecurringRule, each: _Occurrence) -> bool:
    """True if the node that ran an occurrence died, and a later owner left it out as missed."""
    last_ms = each.due_ms + rule.catch_up_ms
    return each.ahead and any(
        closed.result == "dropped"
        and closed.finished_ms + facts.apart_ms > last_ms
        and all(start.epoch < epoch_of(closed.write_time) for start in each.starts)
        for closed in facts.run.completed[each.key]
    )


def _started_late(
    facts: DoorFacts, ahead: Sequence[_Occurrence], replaced_ms: float
) -> Iterator[tuple[_Occurrence, Started]]:
    """Yield tasks that were made ahead and started late, with their first attempts.  What a rule
    had made that was replaced before the start is not looked at.
    """
    for each in ahead:
        first = min(each.starts, key=lambda start: start.at_ms, default=None)
        if first is None or first.wall_ms <= each.due_ms + LATE_MS + facts.apart_ms:
            continue
        if replaced_ms > first.wall_ms + facts.apart_ms:
            yield each, first


def _ahead_against_policy(
    facts: DoorFacts,
    rule: RecurringRule,
    late: Sequence[tuple[_Occurrence, Started]],
    own: Sequence[_Occurrence],
) -> Iterator[str]:
    """Find tasks that were made ahead and ran though, at their time, too many were open."""
    allowed = _ALLOWED[rule.overlap]
    run = facts.run
    for each, first in late:
        due_at_ms = each.due_ms - run.wall_at_start_ms + LATE_MS + facts.apart_ms
        beside = sum(
            other.due_ms < each.due_ms and _ran_at(run, other, first.at_ms, due_at_ms)
            for other in own
        )
        if beside >= allowed:
            yield f"{each.key} ({rule.overlap}) ran though {beside} were open at its time"


def _ahead_though_missed(
    facts: DoorFacts,
    rule: RecurringRule,
    late: Sequence[tuple[_Occurrence, Started]],
    occurrences: Sequence[_Occurrence],
    ticks: Sequence[Started],
) -> Iterator[str]:
    """Find tasks that were made ahead and ran though no node had their partition within the
    catch-up window, nor came a tick; one that waits for an earlier one may.
    """
    for each, first in late:
        at_ms = each.due_ms - facts.run.wall_at_start_ms - facts.apart_ms
        is_missed = _was_taken_over_late(facts, rule, each, first, ticks)
        if is_missed and not _open_since(facts.run, occurrences, each.due_ms, at_ms):
            yield f"{each.key} ran though its node came later than the catch-up window"


def _was_taken_over_late(
    facts: DoorFacts,
    rule: RecurringRule,
    each: _Occurrence,
    first: Started,
    ticks: Sequence[Started],
) -> bool:
    """True if neither its node nor a tick came within the catch-up window."""
    run = facts.run
    taken_over_ms = min(
        (
            noted.at_ms + run.wall_at_start_ms
            for noted in run.noted()
            if isinstance(noted.event, PartitionAssigned)
            and (noted.node, noted.event.partition, noted.event.epoch)
            == (first.node, first.partition, first.epoch)
        ),
        default=0.0,
    )
    had_tick = any(
        tick.key.scheduled_ms >= each.due_ms and tick.wall_ms <= each.due_ms + rule.catch_up_ms
        for tick in ticks
    )
    too_late_ms = each.due_ms + rule.catch_up_ms + SLACK_MS * run.pace + facts.apart_ms
    return taken_over_ms > too_late_ms and not had_tick


def _ran_at(run: Run, each: _Occurrence, before_ms: float, at_ms: float) -> bool:
    """True if an attempt that began before one moment had not ended at another, nor had its
    task: a node that was paused ends an attempt long after another one has closed the task.
    """
    return at_ms < _last_closed_ms(run, each.key) and any(
        start.at_ms < before_ms and at_ms < _end_ms(run, start) < NEVER_MS for start in each.starts
    )


def _end_ms(run: Run, tick: Started) -> float:
    ended = run.ended.get(tick.id)
    return NEVER_MS if ended is None else ended.at_ms
