"""The invariants that judge which attempts started, and when: promises P2 to P7.

Each yields one sentence for each violation, as those of ``invariants`` do.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping

from hourhand.actors.model.operations.events import (
    AttemptRefused,
    CatchUpEnded,
    CommandDecided,
    PartitionAssigned,
    RetriesExhausted,
    TaskHeld,
)
from hourhand.actors.model.task.codec import Command, CommandKind
from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CommandOutcome, CompletionResult
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.errors import PayloadSealed
from tests.simulation.history import (
    HALTS,
    CaughtUp,
    CompletionsRemoved,
    Happened,
    LeftToLoad,
    Miscalled,
    Misdelivered,
    Noted,
    OutcomeStored,
    RowsRemoved,
    RowStored,
    Started,
)
from tests.simulation.hold_invariants import (
    clock_spans,
    crowded_spans,
    disturbed_spans,
    held_spans,
)
from tests.simulation.judged import Complaints, Run
from tests.simulation.network import SLOW_ANSWER_MS
from tests.simulation.task_maker import HEALTHY
from tests.simulation.unordered import PLACES, SWARM
from tests.simulation.user_code import value_of

REACTION_MS = 500.0
"""Time in which a durable record reaches the attempt that it concerns."""
LATENESS_MAX_MS = 1_200.0
"""Lateness of a healthy task while nothing disturbs the installation, at most."""
FAST_ANSWER_MS = 10.0
"""Time of an answer of the store in good weather, at most."""
_CLOSING = {CommandOutcome.APPLIED, CommandOutcome.RUNNING}
"""Outcomes of a cancel or drop after which no further attempt starts."""
_DEATHS = {
    **dict.fromkeys(("killed", "killed memory", "killed timeout"), True),
    **dict.fromkeys(("killed lease", "killed drained", "killed given up", "killed closed"), False),
}
"""True if a death of a process uses up an attempt, by how it is noted."""
_QUEUE_LONG = 50
"""No run has so many tasks of one ordering id at hand or waiting for a retry."""
RECOVERY_MS = 8_000.0
"""Time after a disturbance in which lateness is not judged."""


def p2_never_early(run: Run) -> Complaints:
    """No attempt starts before its time by the clock of the node that starts it."""
    for start in run.started:
        if start.wall_ms < start.key.scheduled_ms:
            yield f"{start.key} started {start.key.scheduled_ms - start.wall_ms} ms early"


def p3_one_at_a_time(run: Run) -> Complaints:
    """No attempt starts beside another of its ordering id that is not excused, or of a kind without
    order beside more than may be.
    """
    for start in run.started:
        for other in start.beside:
            if not other.excuse:
                yield f"attempt {start.id} of {start.key} started while {other.id} was running"
        places = PLACES.get(start.kind)
        if places is not None and start.alike > places:
            yield f"{start.key} started as number {start.alike} of its ordering id and kind"


def p26_no_process_runs_beside_the_next_owner(run: Run) -> Complaints:
    """What runs in a process has ended before another attempt of its ordering id starts, whatever
    became of its node.
    """
    for start in run.started:
        for other in start.beside:
            if other.is_in_process:
                yield f"attempt {start.id} of {start.key} started while {other.id} was in a process"


def a_death_counts_as_what_caused_it(run: Run) -> Complaints:
    """A death in a process uses up an attempt where user code caused it, and none where the node
    killed it for its own sake.
    """
    before: dict[TaskKey, Started] = {}
    for start in run.started:
        last, before[start.key] = before.get(start.key), start
        if last is None or last.offset != start.offset:
            continue
        ended = run.ended.get(last.id)
        why = None if ended is None else _DEATHS.get(ended.ending)
        if why is False and start.number > last.number:
            yield f"{start.key} lost an attempt, as its process was {run.ended[last.id].ending}"
        is_of_same = (last.node, last.epoch) == (start.node, start.epoch)
        if why and is_of_same and start.number != last.number + 1:
            yield f"{start.key} lost no attempt, and its process was {run.ended[last.id].ending}"


def one_attempt_is_at_most_two_starts(run: Run) -> Complaints:
    """A task whose policy allows one attempt runs at most twice although its node dies of it.

    P1 judges that what never ran is not given up.
    """
    if run.attempts_max != 1:
        return
    starts = Counter((start.key, start.offset) for start in run.started)
    for (key, _), times in starts.items():
        if times > 2 and not run.reopened_between(key, 0, math.inf):
            yield f"{key} started {times} times, one attempt is allowed"


def p28_a_success_has_its_result(run: Run) -> Complaints:
    """A success that is seen has the value of an attempt of its task, unless an attempt that began
    by then returns none.
    """
    began: dict[TaskKey, list[Started]] = defaultdict(list)
    for start in run.started:
        began[start.key].append(start)
    for key, completions in run.completed.items():
        for each in completions:
            if not each.returns:
                continue
            values = [
                value_of(key.uniqueness_key, start.number, start.epoch)
                for start in began[key]
                if start.at_ms <= each.at_ms
            ]
            if each.value not in {"" if value is None else str(value) for value in values}:
                yield f"{key} was closed with the result {each.value or 'none'}, not of {values}"


def p4_in_order(run: Run) -> Complaints:
    """A task stored before an earlier sibling fell due starts after that one is closed."""
    yield from _unread_starts(run)
    yield from _closed_out_of_order(run)
    for called in run.history.of(Miscalled):
        yield f"{called.key} {called.complaint}"
    stored, fell_due_ms = _stored_since(run), _fell_due(run)
    first_start: dict[TaskKey, Started] = {}
    for start in run.started:
        if start.kind not in PLACES:
            first_start.setdefault(start.key, start)
    decided, refused_ms = _decided(run), _refused_ms(run)
    keys: dict[str, list[TaskKey]] = defaultdict(list)
    for key in sorted(stored):
        keys[key.ordering_id].append(key)
    for siblings in keys.values():
        for index, earlier in enumerate(siblings):
            if earlier not in first_start:
                # What never ran was withdrawn, so nothing can have overtaken it, or has no order.
                continue
            closed_ms = min((each.at_ms for each in run.completed[earlier]), default=float("inf"))
            for later in siblings[index + 1 :]:
                begun = first_start.get(later)
                if begun is None or begun.at_ms >= closed_ms or earlier in begun.behind:
                    continue
                if max(stored[earlier], stored[later]) >= fell_due_ms(earlier, begun):
                    continue
                # While a command is decided, its task is out of the queue, and the next one gets
                # its turn; a worker, or the lease, may be there for that one long after.
                turns_ms = [ms for ms in (begun.queued_ms, *refused_ms[later]) if ms <= begun.at_ms]
                spans = decided[earlier]
                if not any(first <= ms <= last for first, last in spans for ms in turns_ms):
                    yield f"{later} started before {earlier} was closed"


def _closed_out_of_order(run: Run) -> Complaints:
    """A task that follows another in its batch is not done before that one is closed."""
    for start in run.started:
        for before in start.behind[:1]:
            closed_ms = min((each.at_ms for each in run.completed[before]), default=float("inf"))
            for each in run.completed[start.key]:
                is_own = each.result == CompletionResult.SUCCESS
                if is_own and start.at_ms <= each.at_ms < closed_ms:
                    yield f"{start.key} was closed in its batch before {before}"


def _stored_since(run: Run) -> dict[TaskKey, float]:
    """Return since when the owner knows of each row, or is bound to load it.

    A row from outside counts once its writer is done: it left the row to be loaded, or the log
    told the owner.  Until then the owner may have loaded past it.
    """
    known_ms = _known_since(run)
    outside: set[TaskKey] = set()
    stored: dict[TaskKey, float] = {}
    for row in run.history.of(RowStored):
        if row.offset < 0:
            outside.add(row.key)
        else:
            stored.setdefault(row.key, known_ms(row.at_ms))
    left = {each.key: each.at_ms for each in run.history.of(LeftToLoad)}
    for key in outside:
        ends = (known[key] for known in (stored, left) if key in known)
        stored[key] = min(ends, default=float("inf"))
    return stored


def _known_since(run: Run) -> Callable[[float], float]:
    """Return a function from when a row was stored to when its owner knows: a slow store's
    answer may be under way for long, and a node that is frozen hears it when it goes on.

    How slow a write is, is settled when it is sent: one sent in a storm may take effect and be
    answered after it.
    """
    slow_ms = SLOW_ANSWER_MS * run.pace
    happened = list(run.history.of(Happened))
    storms = [h for h in happened if h.what.startswith("store:")]
    pauses = [h for h in happened if h.what in HALTS]

    def since(at_ms: float) -> float:
        sent_ms = [min(at_ms, h.until_ms) for h in storms if h.at_ms <= at_ms]
        answered_ms = max(at_ms + FAST_ANSWER_MS, *(sent + slow_ms for sent in sent_ms), at_ms)
        woken = (h.until_ms for h in pauses if h.at_ms <= answered_ms and at_ms <= h.until_ms)
        return max(answered_ms, *woken, at_ms)

    return since


def _fell_due(run: Run) -> Callable[[TaskKey, Started], float]:
    """Return a function from a key to when it fell due for whoever started a later one.

    A node that had the partition by then goes by its own clock; otherwise any node may have
    handed it on, by the clock that was furthest ahead.
    """
    since: dict[tuple[str, int, int], float] = {}
    for entry in run.noted():
        if isinstance(entry.event, PartitionAssigned):
            place = (entry.node, entry.event.partition, entry.event.epoch)
            since.setdefault(place, entry.at_ms)

    def fell_due_ms(key: TaskKey, begun: Started) -> float:
        due_ms = key.scheduled_ms - run.wall_at_start_ms
        own_ms = key.scheduled_ms - begun.wall_ms + begun.at_ms
        had_it = since[begun.node, begun.partition, begun.epoch] < own_ms
        if had_it and not run.clock_stepped(begun.node, begun.at_ms):
            return own_ms
        return due_ms - run.clocks_apart_ms

    return fell_due_ms


def _decided(run: Run) -> dict[TaskKey, list[tuple[float, float]]]:
    """Return when commands for a key were decided: from their record to soon after the outcome, and
    to the store's answer, which may be slow.
    """
    found: dict[TaskKey, list[tuple[float, float]]] = defaultdict(list)
    unanswered: dict[TaskKey, OutcomeStored] = {}
    for entry in run.history.entries:
        match entry:
            case OutcomeStored(at_ms=last_ms):
                stored = unanswered[entry.outcome.key] = entry
            case Noted(at_ms=last_ms, event=CommandDecided(key=key)) if key in unanswered:
                stored = unanswered.pop(key)
            case _:
                continue
        appended_ms = run.truth.appended_ms(stored.partition, stored.offset) - run.wall_at_start_ms
        span = appended_ms, last_ms + REACTION_MS * run.pace
        for named in (stored.outcome.key, stored.outcome.new_key):
            if named is not None:
                found[named].append(span)
    return found


def _refused_ms(run: Run) -> dict[TaskKey, list[float]]:
    """Return when a key had its turn without the lease or the time that an attempt needs."""
    found: dict[TaskKey, list[float]] = defaultdict(list)
    for each in run.noted():
        if isinstance(each.event, AttemptRefused):
            found[each.event.key].append(each.at_ms)
    return found


def _unread_starts(run: Run) -> Complaints:
    """An assigned partition starts nothing before it is caught up, or says that it gave up.

    What a failed tree had handed to the runner already goes on under its successor at once.
    """
    assigned_ms: dict[tuple[str, int], float] = {}
    ready: set[tuple[str, int]] = set()
    for entry in run.history.entries:
        match entry:
            case Noted(node=node, event=PartitionAssigned(partition=partition)):
                ready.discard((node, partition))
                assigned_ms[node, partition] = entry.at_ms
            case Noted(node=node, event=CatchUpEnded(partition=partition)):
                ready.add((node, partition))
            case CaughtUp(undurable=undurable) if undurable:
                yield f"{entry.node} caught up on {entry.partition} without {undurable}"
            case Started(node=node, partition=partition, key=key, queued_ms=queued_ms):
                early = (node, partition) not in ready
                if early and queued_ms >= assigned_ms[node, partition]:
                    yield f"{key} started on {node} before it had caught up"
            case _:
                pass


def p5_done_is_done(run: Run) -> Complaints:
    """A done key never starts again, unless an operator's retry opened it."""
    yield from _tried_too_often(run)
    for start in run.started:
        if start.done_before:
            yield f"{start.key} started on {start.node} although closed: {start.done_before}"
    kept_ms = run.tree.watermark.completion_retention_ms - 2 * run.clocks_off_ms
    for removed in run.history.of(CompletionsRemoved):
        for key in removed.guarding:
            yield f"the completion of {key} was deleted before its row"
        if removed.youngest_ms < kept_ms:
            yield f"completions were deleted {removed.youngest_ms:.0f} ms after their rows"
    yield from _lost_failed_work(run)


def _lost_failed_work(run: Run) -> Complaints:
    """A failed task, and no other, can be opened again during its retention."""
    kept_ms = run.tree.watermark.failed_retention_ms - 2 * run.clocks_off_ms
    for removed in run.history.of(RowsRemoved):
        if removed.failed_ago_ms < kept_ms:
            yield f"rows were deleted {removed.failed_ago_ms:.0f} ms after their tasks failed"
    for stored in run.history.of(OutcomeStored):
        outcome, key = stored.outcome.outcome, stored.outcome.key
        if outcome is CommandOutcome.DATA_GONE and stored.failed_ago_ms < kept_ms:
            yield f"{key} lost its data {stored.failed_ago_ms:.0f} ms after it failed"
        if outcome is CommandOutcome.APPLIED and stored.revived:
            yield f"a dead letter opened {key}, which had ended well"
        if outcome is CommandOutcome.RAN_ALREADY and stored.found != CompletionResult.SUCCESS:
            yield f"{key} is said to have run already, and is {stored.found}"


def _tried_too_often(run: Run) -> Complaints:
    """Failed for good is done as well: whatever was rebuilt or restarted, attempts count."""
    for partition in range(run.partitions):
        for key, failures in run.truth.failures(partition).items():
            reopened = run.reopened_between(key, 0, float("inf"))
            if (
                failures > run.attempts_max
                and not reopened
                and not key.ordering_id.startswith(RESERVED)
            ):
                yield f"{key} failed {failures} times, {run.attempts_max} are allowed"


def _records_by_key(run: Run) -> Mapping[TaskKey, list[StoredTask | Command]]:
    """Return all records of each key, in log order."""
    records: dict[TaskKey, list[StoredTask | Command]] = defaultdict(list)
    for partition in range(run.partitions):
        for _, entry in run.truth.entries(partition):
            if not isinstance(entry, str):
                found = run.found(partition, entry)
                records[found.key].append(found)
    return records


def p6_the_last_record_wins(run: Run) -> Complaints:
    """An attempt uses the newest data that was durable well before it was begun; none begins
    when that record is a cancel.
    """
    since, records = run.durable_since(), _records_by_key(run)
    outcomes = {(o.partition, o.offset): o.outcome.outcome for o in run.history.of(OutcomeStored)}
    refused = {(n.node, n.event.key) for n in run.noted() if isinstance(n.event, AttemptRefused)}
    for start in run.started:
        known = [
            record
            for record in records[start.key]
            if since(start.partition, record.offset) < start.queued_ms - REACTION_MS * run.pace
        ]
        newest = max(
            (r.offset for r in known if _brings_data(r, outcomes, start.partition)), default=-1
        )
        # Where its clock was set back, a key that was due waits once more, for the same moment as
        # the record, and either may come first; that moment is over at once where a clock leaps.
        reaction_ms = REACTION_MS * run.pace
        is_first = start.wall_ms < start.key.scheduled_ms + reaction_ms or run.clock_stepped(
            start.node, start.at_ms, start.at_ms - reaction_ms
        )
        waited_again = (
            is_first
            and run.clock_stepped(start.node, start.at_ms)
            and (start.number > 1 or (start.node, start.key) in refused)
        )
        if newest > start.offset and not waited_again:
            yield f"{start.key} ran the data of {start.offset}, {newest} was durable before"
        for record in known:
            if (
                isinstance(record, Command)
                and record.offset > max(newest, start.offset)
                and record.kind in {CommandKind.CANCEL, CommandKind.DROP}
                and outcomes.get((start.partition, record.offset)) in _CLOSING
                and not run.reopened_between(start.key, 0, start.at_ms)
            ):
                yield f"{start.key} started after {record.kind} at {record.offset} was applied"


def what_is_asked_to_end_counts_no_more(run: Run) -> Complaints:
    """An attempt that runs on after a command asked it to end makes its key no success."""
    for partition in range(run.partitions):
        for _, entry in run.truth.entries(partition):
            if not isinstance(entry, Command) or not entry.running:
                continue
            stored = run.first_outcomes.get((partition, entry.offset))
            if stored is not None and stored.outcome.outcome is CommandOutcome.RUNNING:
                yield from _counted_on(run, stored)


def _counted_on(run: Run, stored: OutcomeStored) -> Complaints:
    key, asked_ms = stored.outcome.key, stored.at_ms
    starts = [each for each in run.started if each.key == key]
    later_ms = min((each.at_ms for each in starts if each.at_ms > asked_ms), default=math.inf)
    for start in starts:
        ended = run.ended.get(start.id)
        ran_on = start.at_ms < asked_ms and (ended is None or ended.at_ms > asked_ms)
        if not ran_on or start.offset > stored.offset:
            continue
        for each in run.completed[key]:
            if each.result == CompletionResult.SUCCESS and asked_ms < each.at_ms < later_ms:
                yield f"{key} ended well at {each.at_ms:.0f}, asked to end at {asked_ms:.0f}"


def _brings_data(
    record: StoredTask | Command,
    outcomes: Mapping[tuple[int, int], CommandOutcome],
    partition: int,
) -> bool:
    """True if a record, or the replay of a dead letter, gives its key data."""
    if isinstance(record, StoredTask):
        return True
    outcome = outcomes.get((partition, record.offset))
    return record.body is not None and outcome is CommandOutcome.APPLIED


def data_chooses_nothing(run: Run) -> Complaints:
    """The data of a task arrives, member by member, at the executor that was asked for."""
    for start in run.started:
        if start.misread:
            yield f"{start.key} {start.misread}"


def sealed_data_waits_for_its_key(run: Run) -> Complaints:
    """User code and middleware have the data that was sealed for their task, and what a node has
    no key for is held.
    """
    for given in run.history.of(Misdelivered):
        yield f"{given.key} {given.complaint}"
    for noted in run.noted():
        match noted.event:
            case RetriesExhausted(key=key, error_class="PayloadSealed"):
                yield f"{key} was given up for want of a key at {noted.at_ms:.0f}"
            case _:
                pass


def p7_isolation(run: Run) -> Complaints:
    """While nothing disturbs the installation, healthy ordering ids are on time whatever the
    sick ones do, and whatever holds another partition; so are tasks without order and limit.
    """
    recovery_ms = RECOVERY_MS * run.pace
    disturbed, crowded = disturbed_spans(run, recovery_ms), crowded_spans(run, recovery_ms)
    base_ms, slack_ms = run.wall_at_start_ms, 2 * run.clocks_apart_ms
    stored = {row.key: row.at_ms for row in run.history.of(RowStored)}
    # A healthy task starts twice only as a suspect, and those wait for each other by design: so
    # does what is due behind one, from when it queued until it was run.
    suspected: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for each in run.started:
        if each.number > 1:
            last_ms = each.at_ms + REACTION_MS * run.pace
            suspected[each.key.ordering_id].append((each.queued_ms, last_ms))
    for ordering_id, span in _keyless_spans(run):
        suspected[ordering_id].append(span)
    seen: set[TaskKey] = set()
    for start in run.started:
        ordering_id = start.key.ordering_id
        if (
            start.key in seen
            or start.key.ordering_id.startswith(RESERVED)
            or not (ordering_id.startswith(HEALTHY) or _waits_for_nobody(run, start))
        ):
            continue
        seen.add(start.key)
        expected_ms = max(start.key.scheduled_ms - base_ms, stored.get(start.key, 0.0))
        late_ms = start.at_ms - expected_ms
        if late_ms <= LATENESS_MAX_MS * run.pace + slack_ms or run.completed[start.key][1:]:
            continue
        excused = (
            *disturbed,
            *suspected[ordering_id],
            *crowded[start.partition],
            *held_spans(run, start.partition, recovery_ms),
            *clock_spans(run, start.node, recovery_ms),
        )
        if not any(first <= start.at_ms and expected_ms <= end for first, end in excused):
            yield f"{start.key} is healthy and started {late_ms:.0f} ms late"


def _keyless_spans(run: Run) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield ordering ids, and when one of their tasks waited for a key that its node lacks."""
    for noted in run.noted():
        event = noted.event
        if isinstance(event, TaskHeld) and event.error_class == PayloadSealed.__name__:
            closed_ms = [
                each.at_ms for each in run.completed[event.key] if each.at_ms > noted.at_ms
            ]
            last_ms = min(closed_ms, default=math.inf) + REACTION_MS * run.pace
            yield event.key.ordering_id, (noted.at_ms, last_ms)


def _waits_for_nobody(run: Run, start: Started) -> bool:
    """True if a task is of the kind without limit, and few enough of it fit into memory."""
    return start.kind == SWARM and run.tree.window.ordering_queue_tasks_max >= _QUEUE_LONG
