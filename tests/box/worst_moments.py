"""The worst moments of a box: acts that chance alone would seldom bring together.

Each is a few things at the box's faces, between which a seed lets some messages and requests go
on.  It decides what happens, and knows nothing of who is told what inside.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hourhand.actors.model.execution.attempts import Ending
from hourhand.actors.model.operations.pauses import Pause, PauseScope
from hourhand.actors.model.task.codec import CommandKind
from tests.box.hand_runner import HandRun, Step
from tests.box.owner import PARTITION, Stand

if TYPE_CHECKING:
    from tests.box.box import Box

_FIRST_ENDINGS = (Ending.DONE, Ending.DONE, Ending.FAILED)
_ENDINGS = (Ending.DONE, Ending.DONE, Ending.FAILED, Ending.FAILED, Ending.RETRY, Ending.DROPPED)
_ANY, _RECORD = "any", "record"
_STORIES: tuple[tuple[CommandKind | str, ...], ...] = (
    (_ANY,),
    (_ANY, _ANY),
    (_RECORD, _RECORD, _ANY),
    (CommandKind.CANCEL, _RECORD),
    (CommandKind.DROP, _RECORD),
    (CommandKind.RESCHEDULE, _RECORD),
    (CommandKind.RESCHEDULE, CommandKind.CANCEL),
    (CommandKind.CANCEL, CommandKind.RETRY),
    (CommandKind.RETRY,),
    (CommandKind.CANCEL,),
)
"""Records and commands that may come about one key, in this order."""
_OUTAGES_MS = (1_500, 8_000, 70_000)


class WorstMoments:
    """The acts, for one box."""

    def __init__(self, box: Box) -> None:
        self._box, self._rng = box, box.rng

    def _wander(self, steps: int) -> None:
        """Let so many messages and requests go on, in any order."""
        box = self._box
        for _ in range(steps):
            if self._rng.random() < 0.7:
                box.system.run_one()
            else:
                box.deliveries.serve_one()

    def _get_going(self, rounds: int) -> None:
        """Let the subtree come as far as it does without more time."""
        box = self._box
        for _ in range(rounds):
            box.owner.advance()
            self._wander(40)

    def _is_working(self) -> bool:
        return self._box.owner.stand is Stand.WORKING and self._box.owner.revoked_at_ms is None

    def race(self) -> None:
        """Records about a task come as its attempt begins, runs or ends."""
        box, rng, runs = self._box, self._rng, self._box.runner.unended
        if not runs or not self._is_working():
            return
        run = rng.choice(runs)
        if run.step is Step.WAITING and rng.random() < 0.5:
            self._begin(run)
        key = run.key
        if rng.random() < 0.3:
            # Or about one that waits for it, or for its time.
            key = rng.choice([*box.ledger.open_keys(), key])
        for kind in rng.choice(_STORIES):
            box.producer.append_about(key, kind)
            if rng.random() < 0.6:
                box.owner.poll(100)
                self._wander(rng.choice((0, 5, 25, 70)))
        box.owner.poll(100)
        if rng.random() < 0.3:
            self._get_going(3)
        self._wander(rng.randrange(25))
        if box.configuration.failing and rng.random() < 0.3:
            box.deliveries.break_next()
        if rng.random() < 0.8:
            self._end(run)
        self._wander(rng.randrange(25))

    def _begin(self, run: HandRun) -> None:
        for each in self._box.runner.can_begin:
            if each.key.ordering_id == run.key.ordering_id:
                self._box.runner.begin(each)

    def _end(self, run: HandRun) -> None:
        """End the batch that a task runs in."""
        runner = self._box.runner
        for first in runner.can_end:
            if run in runner.batch_of(first):
                endings = [self._rng.choice(_ENDINGS) for _ in runner.batch_of(first)]
                # The first one is done more often than what follows.
                endings[0] = self._rng.choice(_FIRST_ENDINGS)
                runner.end(first, partial(endings.pop, 0))
                return

    def drain(self) -> None:
        """The partition is given up; what runs ends one by one, now and then badly."""
        box, rng = self._box, self._rng
        if not self._is_working() or len(box.runner.can_end) < 2:
            return
        if rng.random() < 0.5:
            box.producer.append_about(rng.choice(box.runner.can_end).key, _ANY)
            box.owner.poll(100)
            self._wander(rng.randrange(30))
            if not self._is_working():
                return
        box.owner.revoke(3_600_000)
        runs = rng.sample(box.runner.can_end, len(box.runner.can_end))
        if rng.random() < 0.5:
            runs.sort(key=lambda run: run.key)
        for run in runs:
            self._wander(rng.randrange(20))
            self._end(run)
            for _ in range(rng.choice((0, 1, 3))):
                # In which the watermark may move.
                self._wander(40)
                box.clock.advance(rng.choice((40, 260)))
            box.owner.advance()
        if rng.random() < 0.5:
            self._end_drain()

    def _end_drain(self) -> None:
        """Let all end that is still at work: then the partition is given up, unless the store
        fails.
        """
        box = self._box
        for _ in range(60):
            if box.owner.stand is Stand.AWAY or box.configuration.failing:
                return
            for run in box.runner.can_begin:
                box.runner.begin(run)
            for run in box.runner.can_end:
                box.runner.end(run, lambda: self._rng.choice(_ENDINGS))
            self._wander(60)
            box.clock.advance(50)
            box.owner.advance()
        if not box.runner.unended:
            box.complaints.append("P14: nothing runs any more, and a drain does not end")

    def crash(self) -> None:
        """The process dies while a task runs whose start is durable, and comes back."""
        box = self._box
        suspects = [run for run in box.runner.can_end if run.attempt.record_starts is not None]
        if not suspects or not self._is_working():
            return
        box.die()
        box.owner.gain()
        self._get_going(4)

    def outage(self) -> None:
        """Tasks are stored for later, and nobody has the partition until they are long due."""
        box, rng = self._box, self._rng
        if not self._is_working():
            return
        box.producer.append_for_later(rng.choice((3, 10, 30)))
        for _ in range(8):
            box.owner.poll(100)
            self._wander(25)
        if self._is_working():
            box.owner.lose()
        box.deliver_all()
        box.clock.advance(rng.choice(_OUTAGES_MS))
        if box.owner.stand is Stand.AWAY:
            box.owner.gain()
        box.producer.append_on_time(rng.choice((0, 4, 15)))
        self._get_going(4)

    def flip(self) -> None:
        """An ordering id is paused as something of it runs or is read, and resumed at once."""
        box, rng = self._box, self._rng
        runs = box.runner.unended
        if not runs or not self._is_working() or box.owner.config.pauses:
            return
        ordering_id = rng.choice(runs).key.ordering_id
        pause = Pause(PauseScope.ORDERING, PARTITION, ordering_id)
        box.owner.pause(box.owner.config.with_pauses((pause,)))
        self._wander(rng.randrange(30))
        if rng.random() < 0.5:
            box.clock.advance(rng.choice((1, 50, 300)))
        self._wander(rng.randrange(30))
        box.unpause()
