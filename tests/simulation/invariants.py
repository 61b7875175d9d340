"""One function for each promise, over the history of a simulated run and what is in its log.

Each yields one sentence for each violation.  Every promise of ``docs/promises.md`` has one.
"""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from hourhand.actors.model.operations.events import (
    RetriesExhausted,
    TreeRebuilt,
)
from hourhand.actors.model.task.codec import Command, CommandKind
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CommandOutcome, CompletionResult
from hourhand.actors.model.task.task import StoredTask
from tests.simulation import memory_invariants
from tests.simulation.attempt_invariants import (
    a_death_counts_as_what_caused_it,
    data_chooses_nothing,
    one_attempt_is_at_most_two_starts,
    p2_never_early,
    p3_one_at_a_time,
    p4_in_order,
    p5_done_is_done,
    p6_the_last_record_wins,
    p7_isolation,
    p26_no_process_runs_beside_the_next_owner,
    p28_a_success_has_its_result,
    sealed_data_waits_for_its_key,
    what_is_asked_to_end_counts_no_more,
)
from tests.simulation.checkpoint_invariants import (
    a_checkpoint_is_of_an_earlier_attempt,
    a_durable_checkpoint_is_found,
    no_earlier_owner_overwrites_a_checkpoint,
)
from tests.simulation.debounce_invariants import the_last_call_makes_its_task
from tests.simulation.flow_invariants import (
    small_flows_do_not_wait_for_a_large_one,
    tasks_keep_their_priority,
)
from tests.simulation.follow_invariants import p29_an_end_has_its_follower
from tests.simulation.group_invariants import a_group_has_its_follower
from tests.simulation.history import (
    HALTS,
    Asked,
    Committed,
    CompletionsRemoved,
    Happened,
    OutcomeStored,
    ReadAmiss,
    Revoked,
    RowsRemoved,
    RowStored,
    Sampled,
    Stopped,
    WatermarkSaved,
)
from tests.simulation.hold_invariants import (
    holds_rebuild_nothing,
    what_is_used_up_has_its_letter,
)
from tests.simulation.judged import Complaints, Run, epoch_of
from tests.simulation.life_invariants import (
    a_snooze_uses_up_no_attempt,
    p27_what_has_expired_does_not_start,
    what_has_expired_is_told_of_once,
)
from tests.simulation.limit_invariants import (
    p24_limits_are_kept,
)
from tests.simulation.outbox_invariants import p25_what_was_committed_is_scheduled
from tests.simulation.outcome_invariants import p30_each_closed_task_is_told
from tests.simulation.recurring_invariants import p23_each_occurrence_comes_once
from tests.simulation.relay_invariants import (
    p17_what_the_relay_took_appears,
    p18_never_before_its_time,
    p19_one_message_for_each_id,
    p20_one_key_keeps_its_order,
)
from tests.simulation.silence_invariants import what_is_stuck_is_told_of_and_ended
from tests.simulation.timer_invariants import (
    p21_no_pop_is_missing,
    p22_a_changed_timer_pops_no_more,
)
from tests.simulation.unique_invariants import one_task_is_made_in_a_window

KNOWN_MS = 1_000.0
"""Time after an operator's pause in which something may still start, in calm."""
REACTION_MS = 500.0
"""Time that a stop may take beyond its deadline."""


def p1_accepted_is_durable(run: Run) -> Complaints:
    """An acknowledged record is in the log; its task ran, or a record says why not."""
    ran = {start.key for start in run.started}
    for partition in range(run.partitions):
        entries = dict(run.truth.entries(partition))
        for asked in run.history.of(Asked):
            if not asked.error and asked.partition == partition:
                found = run.truth.at_broker_offset(partition, asked.offset)
                if not any(_is_asked(entry, asked) for entry in found):
                    yield f"{asked.kind} of {asked.key} was acknowledged and is not in the log"
        named = [run.found(partition, e) for e in entries.values() if isinstance(e, Command)]
        commands = {command.key for command in named}
        for key in {e.key: 0 for e in entries.values() if isinstance(e, StoredTask)}:
            completion = run.truth.last_completion(partition, key)
            result = completion[1].result if completion else None
            if (
                result in {CompletionResult.SUCCESS, CompletionResult.FAILURE}
                and key not in ran
                and not run.died_at_its_start(partition, key)
            ):
                yield f"{key} is closed as {result} and never ran"
            if result in {CompletionResult.CANCELLED, CompletionResult.MOVED} and (
                key not in commands
            ):
                yield f"{key} is closed as {result} and nobody asked for it"


def _is_asked(entry: StoredTask | Command | str, asked: Asked) -> bool:
    if isinstance(entry, str):
        return False
    if not asked.by_pair:
        return entry.key == asked.key
    return isinstance(entry, Command) and entry.by_pair and entry.key[1:] == asked.key[1:]


def p8_no_orphan(run: Run) -> Complaints:
    """No watermark passes an open task that is not a listed straggler's."""
    for saved in run.history.of(WatermarkSaved):
        for key in saved.orphans:
            yield f"the watermark of {saved.partition} at {saved.at_ms:.0f} passed open {key}"
    for commit in run.history.of(Committed):
        for key in commit.orphans:
            yield f"a restart at {commit.at_ms:.0f} would not load open {key}"
    for removed in run.history.of(RowsRemoved):
        for key in removed.open:
            yield f"the row of open {key} was deleted at {removed.at_ms:.0f}"


def p9_commit_after_durable(run: Run) -> Complaints:
    """No offset is committed before every record below it had its durable effect."""
    for commit in run.history.of(Committed):
        if commit.undurable:
            yield (
                f"{commit.where} of {commit.partition} was set to {commit.next_offset} at"
                f" {commit.at_ms:.0f} while {commit.undurable} were not durable"
            )


def p10_poison_never_blocks(run: Run) -> Complaints:
    """Every poison record is a dead letter with its reason, and nothing else but what the log
    refuses to take where it belongs.
    """
    letters = run.truth.dead_letters()
    exhausted = {e.event.key for e in run.noted() if isinstance(e.event, RetriesExhausted)}
    # A task that a command moved carries the command's offset and another key.
    for partition in range(run.partitions):
        homeless = run.truth.homeless(partition)
        for offset, entry in run.truth.counted(partition):
            reason = letters.get((partition, offset))
            if entry == "poison" and not reason:
                yield f"poison at {partition}/{offset} has no dead letter with a reason"
            elif entry != "poison" and reason is not None and offset not in homeless:
                found = entry if isinstance(entry, str) else run.found(partition, entry)
                keys = () if isinstance(found, str) else (found.key, _new_key(found))
                if not exhausted.intersection(keys):
                    yield f"{partition}/{offset} is a dead letter and no poison: {reason}"


def _new_key(entry: StoredTask | Command) -> TaskKey | None:
    return entry.new_key if isinstance(entry, Command) else None


def p11_the_past_is_refused(run: Run) -> Complaints:
    """A client refuses just what is further in the past than the grace window."""
    for asked in run.history.of(Asked):
        if asked.kind in {"schedule", "reschedule", "replace"}:
            late = asked.wall_ms - asked.time_ms > asked.grace_ms
            if late != (asked.error == "TaskInThePast"):
                yield f"{asked.kind} to {asked.time_ms} at {asked.wall_ms} gave {asked.error!r}"


def p12_commands_are_ordered(run: Run) -> Complaints:
    """Each command has one outcome, which a replay neither changes nor acts upon again."""
    first: dict[tuple[int, int], OutcomeStored] = {}
    for stored in run.history.of(OutcomeStored):
        place = (stored.partition, stored.offset)
        before = first.setdefault(place, stored)
        # A replay after a failed write finds the row that the first try wrote, and keeps what a
        # move wrote there: nobody is told of that.
        told, told_before = (replace(each.outcome, moved_data=None) for each in (stored, before))
        if told != told_before:
            yield f"outcome of {place} changed from {before.outcome} to {stored.outcome}"
        if stored.outcome.outcome is CommandOutcome.ALREADY_CLOSED and stored.own_effect:
            yield f"the command at {place} found its own effect and calls it already closed"
    yield from _pairs_mean_what_stands_before(run)
    yield from _outcomes_of_others(run, first)
    for partition in range(run.partitions):
        for offset, entry in run.truth.counted(partition):
            if isinstance(entry, Command) and (partition, offset) not in first:
                yield f"{entry.kind} of {entry.key} at {partition}/{offset} has no outcome"
    stands: dict[TaskKey, int] = {}
    for row in run.history.of(RowStored):
        outcome = first.get((row.partition, row.offset))
        before_it = stands.get(row.key, -1)
        stands[row.key] = row.offset
        if (
            outcome is not None
            # An earlier record of the key that was read again took its row's place meanwhile.
            and before_it >= row.offset
            # They are written once more before their hour is deleted, and when they are opened.
            and not run.failed_before(row.key, row.at_ms)
            and outcome.at_ms < row.at_ms
            and epoch_of(row.write_time) > epoch_of(outcome.write_time)
        ):
            yield f"the command at {row.partition}/{row.offset} wrote its row twice"


def _outcomes_of_others(run: Run, first: Mapping[tuple[int, int], OutcomeStored]) -> Complaints:
    """An outcome is that of the command which stands there, in its own topic."""
    for partition in range(run.partitions):
        entries = dict(run.truth.entries(partition))
        for (where, offset), stored in first.items():
            if where != partition:
                continue
            entry, outcome = entries.get(offset), stored.outcome
            own = isinstance(entry, Command) and (entry.by_pair or entry.key == outcome.key)
            if not own:
                yield f"the outcome at {partition}/{offset} is of {outcome.key}, there is {entry}"


def _pairs_mean_what_stands_before(run: Run) -> Complaints:
    """A command by pair is for the one open task of what the log has before it."""
    for place, stored in run.first_outcomes.items():
        pair, outcome = stored.pair, stored.outcome
        if pair is None:
            continue
        # A task that ended between the search and the outcome was open then.
        may_be_meant = {*pair.open, *pair.closed_since, *pair.changed}
        still_open = {key for key in pair.open if not _was_closing(run, key, stored)}
        said = f"the command by pair at {place} came to {outcome.outcome} for {outcome.key}, while"
        match outcome.outcome:
            case CommandOutcome.UNKNOWN_PAIR:
                if still_open or pair.changed or pair.closed_before:
                    yield f"{said} there were {pair}"
            case CommandOutcome.SEVERAL_TASKS:
                several = may_be_meant | {*pair.failed} if _is_retry(run, place) else may_be_meant
                if pair.changed or len(several) < 2:
                    yield f"{said} there was {pair}"
            case CommandOutcome.RUNNING:
                # The attempt may have ended well since, and its completion be the one that counts.
                others = {*still_open, *pair.changed} - {outcome.key}
                if others or outcome.key not in may_be_meant:
                    yield f"{said} there were {pair}"
            case CommandOutcome.APPLIED:
                kept = outcome.new_key == outcome.key
                if pair.changed != (() if kept else (outcome.key,)):
                    yield f"{said} it changed {pair.changed}"
                if still_open - {outcome.key}:
                    yield f"{said} {pair.open} were open"
            case CommandOutcome.ALREADY_CLOSED if outcome.key == outcome.new_key:
                # A replace whose own key is done; with that of a task it would name it.
                if still_open or pair.changed:
                    yield f"{said} there were {pair}"
            case _:
                # A move that comes too late closes an expired task.
                expired = {outcome.key} if stored.found == CompletionResult.EXPIRED else set()
                if still_open - {outcome.key} or {*pair.changed} - expired:
                    yield f"{said} there were {pair}"
                if outcome.key not in may_be_meant | {*pair.closed_before}:
                    yield f"{said} that is none of {pair}"


def _was_closing(run: Run, key: TaskKey, stored: OutcomeStored) -> bool:
    """True if the owner had sent a key's completion before the outcome, and had no answer yet."""
    return any(
        stored.at_ms < each.at_ms and each.write_time < stored.write_time
        for each in run.completed[key]
    )


def _is_retry(run: Run, place: tuple[int, int]) -> bool:
    entry = dict(run.truth.entries(place[0]))[place[1]]
    return isinstance(entry, Command) and entry.kind is CommandKind.RETRY


def p13_bounded_memory(run: Run) -> Complaints:
    """The memory of a partition keeps to its limits, whatever the backlog."""
    window = run.tree.window
    for sample in run.history.of(Sampled):
        # Before the window is shrunk a poll passes beside it, and one that was under way then.
        beside = 2 * run.polled_most.get(sample.partition, 0)
        if sample.waiting > window.tasks_max + beside:
            yield f"{sample.node} holds {sample.waiting} waiting tasks of {sample.partition}"
        if sample.queued_max > max(window.ordering_queue_tasks_max, window.slots // 2) + 1:
            yield f"{sample.node} holds {sample.queued_max} tasks of one ordering id"
        # What is handed on has a slot.  Any number of ids whose queue was left to the store read
        # on whoever has the slots meanwhile, and what they bring must be counted, too.
        if sample.uncounted:
            yield f"{sample.node} does not count {sample.uncounted} due tasks of {sample.partition}"
    yield from memory_invariants.bytes_are_bounded(run)


def p14_graceful_stop(run: Run) -> Complaints:
    """A stop ends soon after its deadline at the latest, and loses no outcome."""
    last_start = {start.node: start.at_ms for start in run.started}
    for stop in run.history.of(Stopped):
        paused_ms = max(
            (
                h.until_ms
                for h in run.history.of(Happened)
                if h.what in HALTS and h.node == stop.node
            ),
            default=0.0,
        )
        reaction_ms = REACTION_MS * run.pace
        allowed_ms = max(stop.asked_ms, paused_ms) + stop.allowed_ms + reaction_ms
        if stop.at_ms > allowed_ms:
            yield f"{stop.node} took {stop.at_ms - stop.asked_ms:.0f} ms to stop"
        if last_start.get(stop.node, 0.0) > stop.at_ms:
            yield f"{stop.node} started an attempt after it had stopped"
        for key in stop.cut_short if stop.at_ms < stop.asked_ms + stop.allowed_ms else ():
            yield f"{stop.node} stopped while {key} was running and had time left"
        for key in stop.lost:
            yield f"{stop.node} stopped and lost the outcome of {key}"


def p15_revoked_is_silent(run: Run) -> Complaints:
    """Only the partition's owner starts attempts; what a drain ended is durable."""
    for start in run.started:
        if not start.is_owner:
            yield f"{start.key} started on {start.node}, which does not own {start.partition}"
    for revoked in run.history.of(Revoked):
        for key in revoked.lost if revoked.drained else ():
            yield f"{revoked.node} gave up {revoked.partition} and lost the outcome of {key}"


def p16_a_rebuilt_tree_changes_nothing(run: Run) -> Complaints:
    """What ended well on a node does not start again there, whatever became of the tree, and
    however often the partition was given up, as long as nobody else owned it meanwhile.
    """
    yield from _strange_attempts(run)
    forgotten = [(key, r.at_ms) for r in run.history.of(CompletionsRemoved) for key in r.keys]
    ended_well: dict[tuple[str, int, TaskKey], float] = {}
    for start in run.started:
        since = run.continued_since(start.node, start.partition, start.epoch)
        place = (start.node, since, start.key)
        ended_ms = ended_well.get(place)
        if (
            ended_ms is not None
            and not run.reopened_between(start.key, ended_ms, start.at_ms)
            # A record that is produced again after the retention makes a new task.
            and not any(k == start.key and ended_ms < at < start.at_ms for k, at in forgotten)
        ):
            yield f"{start.key} started again on {start.node} after it had ended well there"
        end = run.ended.get(start.id)
        if end is not None and end.ending in {"done", "dropped"}:
            ended_well[place] = end.at_ms


def _strange_attempts(run: Run) -> Complaints:
    """Old attempts hold their ordering id on their node, and an outcome is its owner's: of the
    epoch it began under, or of later ones of the same node with nobody in between.
    """
    starts = {start.id: start for start in run.started}
    for start in run.started:
        for other in start.beside:
            if starts[other.id].node == start.node:
                yield f"{start.key} started on {start.node} beside its own attempt {other.id}"
    for key, completions in run.completed.items():
        for each in completions:
            epoch = epoch_of(each.write_time)
            if each.result == CompletionResult.SUCCESS and not run.was_attempted(key, epoch):
                yield f"{key} was closed under epoch {epoch} by an attempt of another one"


def pauses_hold(run: Run) -> Complaints:
    """Nothing starts that its node knows to be paused, and in calm every node soon knows."""
    happened = [h for h in run.history.of(Happened) if h.what not in {"operator", "peace"}]
    rebuilt = [each.at_ms for each in run.noted() if isinstance(each.event, TreeRebuilt)]
    for start in run.started:
        if start.known_paused:
            yield f"{start.key} started on {start.node}, which knew that it was paused"
        known_ms = KNOWN_MS * run.pace
        since_ms = start.at_ms - start.paused_ms
        calm = not any(
            h.at_ms <= start.at_ms and since_ms <= h.until_ms + known_ms for h in happened
        )
        calm = calm and not any(since_ms <= at_ms <= start.at_ms for at_ms in rebuilt)
        if calm and start.paused_ms > known_ms:
            yield f"{start.key} started {start.paused_ms:.0f} ms after it was paused"


def segments_read_as_rows(run: Run) -> Complaints:
    """If many successes are one row, each read has the answer that rows would give (P5, P8)."""
    for read in run.history.of(ReadAmiss):
        yield f"partition {read.partition} at {read.at_ms:.0f}: {read.complaint}"


def liveness(run: Run) -> Complaints:
    """When faults stop, everything is executed or closed in bounded time."""
    for sentence in run.truth.unfinished():
        yield f"at the end, {sentence}"


INVARIANTS: tuple[Callable[[Run], Complaints], ...] = (
    p1_accepted_is_durable,
    p2_never_early,
    p3_one_at_a_time,
    p4_in_order,
    p5_done_is_done,
    p6_the_last_record_wins,
    what_is_asked_to_end_counts_no_more,
    p7_isolation,
    a_death_counts_as_what_caused_it,
    one_attempt_is_at_most_two_starts,
    data_chooses_nothing,
    sealed_data_waits_for_its_key,
    small_flows_do_not_wait_for_a_large_one,
    tasks_keep_their_priority,
    p8_no_orphan,
    p9_commit_after_durable,
    p10_poison_never_blocks,
    p11_the_past_is_refused,
    p12_commands_are_ordered,
    p13_bounded_memory,
    p14_graceful_stop,
    p15_revoked_is_silent,
    p16_a_rebuilt_tree_changes_nothing,
    a_checkpoint_is_of_an_earlier_attempt,
    a_durable_checkpoint_is_found,
    no_earlier_owner_overwrites_a_checkpoint,
    what_is_stuck_is_told_of_and_ended,
    p17_what_the_relay_took_appears,
    p18_never_before_its_time,
    p19_one_message_for_each_id,
    p20_one_key_keeps_its_order,
    p21_no_pop_is_missing,
    p22_a_changed_timer_pops_no_more,
    p23_each_occurrence_comes_once,
    p24_limits_are_kept,
    p25_what_was_committed_is_scheduled,
    p26_no_process_runs_beside_the_next_owner,
    p27_what_has_expired_does_not_start,
    what_has_expired_is_told_of_once,
    a_snooze_uses_up_no_attempt,
    p28_a_success_has_its_result,
    p29_an_end_has_its_follower,
    a_group_has_its_follower,
    p30_each_closed_task_is_told,
    one_task_is_made_in_a_window,
    the_last_call_makes_its_task,
    pauses_hold,
    holds_rebuild_nothing,
    what_is_used_up_has_its_letter,
    segments_read_as_rows,
    liveness,
)
"""Every invariant, in the order of the promises."""
