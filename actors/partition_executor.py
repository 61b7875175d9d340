"""PartitionExecutor: keeps one OrderingExecutor for each busy ordering id of a partition.

Decides when an ordering id becomes busy and when it is idle again, and sends the effects of a
message at its end.  Never looks inside a task, and never makes one ordering id wait for another
(P7).
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import assert_never

import msgspec

from hourhand.actors.kernel.actor import Actor
from hourhand.actors.kernel.context import Look
from hourhand.actors.messages import (
    DrainTasks,
    ExecuteTasks,
    LoadStragglers,
    MeasureProgress,
    MeetSiblings,
    OrderingLoaded,
    OutcomesRecorded,
    PauseTasks,
    ProgressMeasured,
    Siblings,
    StartTasks,
    TasksChecked,
    TasksDrained,
    TaskWithdrawn,
    UpdateTask,
    WithdrawTask,
)
from hourhand.actors.model.execution.attempts import CheckpointMade, finished_event
from hourhand.actors.model.execution.commands import WithdrawalResult
from hourhand.actors.model.operations.events import orderings_measured
from hourhand.actors.model.operations.ownership import Ownership, Straggler, stragglers_of
from hourhand.actors.model.operations.pauses import NOT_PAUSED, PartitionPause
from hourhand.actors.model.task.key import first_key_at
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.ordering_executor import OrderingExecutor
from hourhand.actors.ports.effects import Effects
from hourhand.actors.turn import AttemptDue, AttemptsEnded, LetterAcknowledged, LookAgain, Turn

DOUBTFUL_LOOK_MS = 100.0
"""Pause between two looks whether a lease that has ended was renewed."""


class _SlowCheckDue(Look, msgspec.Struct, frozen=True):
    pass


Message = (
    ExecuteTasks
    | AttemptsEnded
    | CheckpointMade
    | OutcomesRecorded
    | TasksChecked
    | OrderingLoaded
    | AttemptDue
    | LookAgain
    | LetterAcknowledged
    | _SlowCheckDue
    | UpdateTask
    | WithdrawTask
    | MeasureProgress
    | LoadStragglers
    | StartTasks
    | DrainTasks
    | MeetSiblings
    | PauseTasks
)
"""All that this role is told."""


class PartitionExecutor(Actor):
    """States: running, draining, drained."""

    def __init__(self, effects: Effects, ownership: Ownership) -> None:
        self._effects = effects
        self._ownership = ownership
        self._siblings: Siblings
        self._turn: Turn
        self._orderings: dict[str, OrderingExecutor] = {}
        self._stored: dict[str, OrderingExecutor] = {}
        """Ids whose open tasks are all in the store: paused ones, and those that a drain leaves to
        the next owner."""
        self._pause = NOT_PAUSED
        self._slow_ids: frozenset[str] = frozenset()
        """The ids that were slow when the drain began."""
        self._draining = False
        self._drained = False

    def on_receive(self, message: Message) -> None:
        match message:
            case ExecuteTasks(tasks=tasks):
                self._execute(tasks)
            case AttemptsEnded():
                self._take_ended()
            case CheckpointMade():
                self._take_checkpoint(message)
            case OutcomesRecorded():
                self._take_recorded(message)
            case TasksChecked():
                self._take_checked(message)
            case OrderingLoaded() | AttemptDue() | LetterAcknowledged() | LookAgain():
                self._pass_on(message)
            case _SlowCheckDue():
                self._check_slow()
            case UpdateTask(task=task):
                self._update(task)
            case WithdrawTask():
                self._withdraw(message)
            case MeasureProgress():
                self._measure_progress(message)
            case LoadStragglers():
                for straggler in message.stragglers:
                    self._load_straggler(straggler, message.watermark_ms)
            case StartTasks():
                self._start()
            case DrainTasks():
                self._drain()
            case PauseTasks(config=config):
                self._take_pause(config.of_partition(self._ownership.partition))
            case MeetSiblings(siblings=siblings):
                self._meet(siblings)
            case _:
                assert_never(message)
        self._end_turn()

    def _end_turn(self) -> None:
        """Let the ids of the message continue, then send its effects."""
        turn, orderings = self._turn, self._orderings
        while turn.touched:
            touched, turn.touched = turn.touched, {}
            for ordering_id in touched:
                ordering = orderings.get(ordering_id)
                if ordering is None:
                    continue
                if ordering.go_on():
                    ordering.count()
                else:
                    self._retire(ordering)
        turn.end()
        if self._draining and not orderings and not self._drained:
            self._drained = True
            self._siblings.supervisor.tell(TasksDrained(self._ownership.partition))

    def _retire(self, ordering: OrderingExecutor) -> None:
        """Remove an id that has nothing more to do here, but keep it if it has left tasks."""
        ordering_id = ordering.ordering_id
        del self._orderings[ordering_id]
        self._turn.occupy(ordering_id, -ordering.counted_tasks, -ordering.counted_bytes)
        if ordering.is_paused and ordering.first_ms() is not None:
            if ordering.queue is not None:
                # Tasks that followed in a batch may have come back to it.
                ordering.queue.spill_all()
            ordering.counted_tasks = ordering.counted_bytes = 0
            self._stored[ordering_id] = ordering

    def _meet(self, siblings: Siblings) -> None:
        """Begin by taking over the attempts that an earlier tree left running here (P16)."""
        self._siblings = siblings
        effects, ownership = self._effects, self._ownership
        self._turn = Turn(effects, ownership, siblings, self._context)
        for attempt in effects.runner.unsettled(ownership.partition):
            self._turn.is_catching_up = True
            assert attempt.partition == ownership.partition, "another partition's attempt"
            self._busy(attempt.task.key.ordering_id).adopt(attempt)
        effects.runner.tell_checkpoints(ownership.partition, self._context.tell)
        self._context.after(effects.settings.window.slow_attempt_ms, _SlowCheckDue())

    def _busy(self, ordering_id: str) -> OrderingExecutor:
        ordering = self._orderings.get(ordering_id)
        if ordering is None:
            ordering = self._stored.pop(ordering_id, None)
            if ordering is None:
                ordering = OrderingExecutor(self._turn, ordering_id)
            self._orderings[ordering_id] = ordering
            if self._is_paused(ordering_id):
                ordering.pause()
        return ordering

    def _start(self) -> None:
        if self._turn.is_catching_up:
            self._turn.is_catching_up = False
            self._turn.touched.update(dict.fromkeys(self._orderings))

    # Tasks begin and end.

    def _execute(self, tasks: Sequence[StoredTask]) -> None:
        assert tasks, "nothing is due"
        assert not self._draining, "a partition that is given up is handed nothing"
        assert tasks[0].key <= tasks[-1].key, "what is due comes in key order (P4)"
        turn, orderings = self._turn, self._orderings
        any_paused = self._stored or self._pause is not NOT_PAUSED
        for task in tasks:
            ordering_id = task.key.ordering_id
            ordering = orderings.get(ordering_id)
            if ordering is None:
                if any_paused:
                    ordering = self._busy(ordering_id)
                else:
                    ordering = orderings[ordering_id] = OrderingExecutor(turn, ordering_id)
            ordering.accept(task)

    def _take_ended(self) -> None:
        if self._is_doubtful():
            # Another owner may have loaded the tasks, and run them again: these ends stay with the
            # runner until the lease is renewed, or the partition is given up.
            self._context.after(DOUBTFUL_LOOK_MS, AttemptsEnded())
            return
        orderings = self._orderings
        for ended in self._turn.ended.take():
            attempt = ended.attempt
            key = attempt.task.key
            ordering = orderings.get(key.ordering_id)
            role = None if ordering is None else ordering.front
            if ordering is not None and (role is None or role.attempt is not attempt):
                role = ordering.at_hand(key)
            if role is not None and role.attempt is attempt:
                role.take_end(ended)
            elif ended.ending.is_of_user_code:
                # The attempt does not count any more, but operators are told of it.
                self._turn.emit(finished_event(ended))

    def _is_doubtful(self) -> bool:
        """True if the node's lease has ended; a drain has a deadline of its own."""
        return (
            not self._draining
            and self._context.clock.monotonic_ms() >= self._effects.lease_ends_ms()
        )

    def _take_checkpoint(self, made: CheckpointMade) -> None:
        """Make a checkpoint durable, unless an earlier owner's attempt made it."""
        if self._ownership.continues(made.attempt.epoch):
            self._turn.made.append(made)

    def _pass_on(
        self, message: OrderingLoaded | AttemptDue | LetterAcknowledged | LookAgain
    ) -> None:
        """Pass an awaited event on to an id, if the id is still busy."""
        match message:
            case OrderingLoaded(request=request):
                if ordering := self._orderings.get(request.ordering_id):
                    ordering.take_loaded(message)
            case AttemptDue(key=key):
                if ordering := self._orderings.get(key.ordering_id):
                    ordering.take_time(key)
            case LetterAcknowledged(key=key, letter=letter):
                if ordering := self._orderings.get(key.ordering_id):
                    ordering.take_letter(key, letter)
            case LookAgain(ordering_id=ordering_id):
                self._turn.looked(ordering_id)

    def _take_recorded(self, message: OutcomesRecorded) -> None:
        orderings = self._orderings
        for completion in message.completions:
            key = completion.key
            ordering = orderings.get(key.ordering_id)
            if ordering is None:
                continue
            role = ordering.front
            if role is None or role.task.key != key:
                role = ordering.at_hand(key)
            if role is not None:
                role.take_completion(completion.result)
        if message.records:
            closed = {completion.key for completion in message.completions}
            for record in message.records:
                ordering = orderings.get(record.key.ordering_id)
                if ordering is not None and record.key not in closed:
                    ordering.take_record(record.key)

    def _take_checked(self, message: TasksChecked) -> None:
        for task, is_closed in message.checks:
            if ordering := self._orderings.get(task.key.ordering_id):
                ordering.take_check(task, closed=is_closed)

    # Other roles ask about tasks.

    def _update(self, task: StoredTask) -> None:
        if ordering := self._orderings.get(task.key.ordering_id):
            ordering.update(task)
            self._turn.touched[task.key.ordering_id] = None

    def _withdraw(self, message: WithdrawTask) -> None:
        ordering = self._orderings.get(message.key.ordering_id)
        if ordering is None:
            message.reply_to.tell(TaskWithdrawn(message.key, WithdrawalResult.ABSENT))
        else:
            ordering.withdraw(message)

    def _load_straggler(self, straggler: Straggler, watermark_ms: int) -> None:
        """Let an id read its tasks before the watermark, before it runs anything else."""
        if straggler.first_ms >= watermark_ms:
            # The watermark was lowered below it since; the ordinary load reads the task.
            return
        span = first_key_at(straggler.first_ms), first_key_at(watermark_ms)
        self._busy(straggler.ordering_id).read_first(*span)

    def _check_slow(self) -> None:
        slow_ms = self._effects.settings.window.slow_attempt_ms
        for attempt in self._effects.runner.long_running(self._ownership.partition, slow_ms):
            key = attempt.task.key
            if ordering := self._orderings.get(key.ordering_id):
                ordering.note_long_running(key)
        # The log of a follower may be unavailable for long.
        ended_ms = self._context.clock.now_ms() - slow_ms
        for ordering in self._orderings.values():
            ordering.note_log_awaited(ended_ms)
        self._context.after(slow_ms, _SlowCheckDue())

    def _measure_progress(self, message: MeasureProgress) -> None:
        earliest_ms = message.earliest_ms
        found = list(message.stragglers)
        for ordering_id, first_ms, is_slow in self._open():
            if is_slow or first_ms < message.watermark_ms:
                found.append(Straggler(ordering_id, first_ms))
            elif earliest_ms is None or first_ms < earliest_ms:
                earliest_ms = first_ms
        stragglers = stragglers_of(found)
        place, now_ms = self._ownership.partition, self._context.clock.now_ms()
        measured = orderings_measured(place, len(self._orderings), stragglers, earliest_ms, now_ms)
        self._effects.telemetry.emit(measured)
        message.reply_to.tell(ProgressMeasured(earliest_ms, stragglers))

    def _open(self) -> Iterable[tuple[str, int, bool]]:
        """Return each id that has open tasks, the time of the first, and whether it is slow."""
        for ordering in chain(self._orderings.values(), self._stored.values()):
            first_ms, ordering_id = ordering.first_ms(), ordering.ordering_id
            if first_ms is not None:
                # A drain pauses all ids, which are not slow for that.
                is_slow = ordering_id in self._slow_ids if self._draining else ordering.is_slow
                yield ordering_id, first_ms, is_slow

    # Paused ids: their tasks are left to the store, and read when they may run again.  A drain is a
    # pause of all ids that only the next owner ends.

    def _is_paused(self, ordering_id: str) -> bool:
        pause = self._pause
        return self._draining or pause.whole or ordering_id in pause.ordering_ids

    def _take_pause(self, pause: PartitionPause) -> None:
        self._pause = pause
        for ordering_id, ordering in self._orderings.items():
            if self._is_paused(ordering_id):
                ordering.pause()
            else:
                ordering.resume()
        for ordering_id in tuple(self._stored):
            if not self._is_paused(ordering_id):
                self._busy(ordering_id).resume()

    def _drain(self) -> None:
        self._slow_ids = frozenset(each for each, _, is_slow in self._open() if is_slow)
        self._draining = True
        for ordering in self._orderings.values():
            ordering.pause()
        self._take_ended()
