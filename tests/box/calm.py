"""The end of a box: nothing fails any more, and all that can go on does.

First some tasks are held up, and all others must be done; then everything must be, and what the
subtree took must be given back.  It says what is missing; everything else is told by the ledger.
"""

from collections.abc import Callable

from actors.model.attempts import Ending
from actors.model.codec import CommandKind
from actors.model.key import TaskKey
from actors.model.operator_sheet import OperatorSheet
from actors.model.pauses import PauseScope
from tests.box.box import Box
from tests.box.hand_runner import HandRun, Step
from tests.box.kinds import BLOCKING, PLACES, UNKNOWN
from tests.box.memory import remembered
from tests.box.owner import PARTITION, Stand

SETTLE_MS = 120_000.0
"""Virtual time in which everything must be done once nothing disturbs the subtree."""
ISOLATION_MS = 10_000.0
"""The same for all that waits for nobody, while others are held up."""


SAVES_MAX = 8
"""Of the watermark, while nothing is scheduled: a few because memory reaches further."""


class CalmEnd:
    """The last part of one box."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._window = box.settings.tree.window
        self._drops_blocked = False
        """Whether somebody drops what holds its ordering id."""

    def _complain(self, sentence: str) -> None:
        self._box.complaints.append(sentence)

    @property
    def _held_bytes(self) -> int:
        return self._box.effects.memory.held_bytes

    def make_peace(self) -> None:
        """End what fails, and what pauses the whole partition."""
        self._box.deliveries.failing = 0.0
        self._drops_blocked = False
        kept = [each for each in self._box.owner.sheet.pauses if each.scope is PauseScope.ORDERING]
        self._box.ledger.note_unpaused()
        self._box.owner.pause(OperatorSheet(self._box.owner.sheet.version + 1, tuple(kept)))

    def _end_holds(self) -> None:
        """End all pauses, drop what holds its ordering id, and know all kinds."""
        self._drops_blocked = True
        self._box.ledger.note_unpaused()
        self._box.owner.pause(OperatorSheet(self._box.owner.sheet.version + 1))
        if UNKNOWN in self._box.configuration.kinds and not self._box.knows_all:
            # A node that knows them takes the partition over.
            self._box.knows_all = True
            if self._box.owner.stand is not Stand.AWAY:
                self._box.owner.lose()

    def settle(
        self,
        is_done: Callable[[], bool],
        *,
        slow: Callable[[HandRun], bool] = lambda _run: False,
        gains: bool = True,
        within_ms: float = SETTLE_MS,
    ) -> bool:
        """Let everything go on, but for attempts that are ``slow``, until it is done.

        Return whether it was in time.
        """
        end_ms = self._box.clock.monotonic_ms() + within_ms
        while self._box.clock.monotonic_ms() < end_ms:
            if self._go_on(slow, gains=gains):
                continue
            if is_done():
                return True
            timer_ms = self._box.system.next_timer_ms()
            now_ms = self._box.clock.monotonic_ms()
            self._box.clock.advance(
                20.0 if timer_ms is None else min(500.0, max(0.0, timer_ms - now_ms))
            )
            if timer_ms is None or timer_ms > now_ms:
                self._after_a_while()
        return False

    def _go_on(self, slow: Callable[[HandRun], bool], *, gains: bool) -> bool:
        """Do all that can be done now; return whether there was anything."""
        moved = False
        if gains and self._box.owner.stand is Stand.AWAY:
            self._box.owner.gain()
        self._box.owner.advance()
        if self._box.owner.position < self._box.producer.end_offset:
            before_offset = self._box.owner.position
            self._box.owner.poll(50)
            moved = self._box.owner.position > before_offset
        while self._box.system.run_one():
            moved = True
        self._box.ledger.note_quiet()
        while self._box.deliveries:
            self._box.deliveries.serve_one()
            moved = True
        for run in self._box.runner.can_begin:
            before = run.step
            self._box.runner.begin(run)
            moved = moved or run.step is not before
        for run in self._box.runner.can_end:
            if run.step is Step.RUNNING and not slow(run):
                self._box.runner.end(run, lambda: Ending.DONE)
                moved = True
        return moved

    def _after_a_while(self) -> None:
        """An operator drops what holds its ordering id, which nobody else does."""
        if self._drops_blocked:
            for key in sorted(filter(self._box.ledger.is_open, self._box.exhausted)):
                self._box.producer.append_command(key, CommandKind.DROP)
            self._box.exhausted.clear()

    def unfinished(self, without: frozenset[str] = frozenset()) -> list[str]:
        """Return what is not done, but for some ordering ids."""
        found = [
            f"{key} is open"
            for key in self._box.ledger.open_keys()
            if key.ordering_id not in without
        ]
        if not self._box.owner.is_answered:
            found.append(f"only records before {self._box.owner.next_offset} are durable")
        return found

    def finish(self) -> None:
        """Let nothing disturb the subtree any more, until all is done, and give all back."""
        self.make_peace()
        self._isolate()
        self._end_holds()
        if not self.settle(lambda: not self.unfinished()):
            self._box.complaints += [f"P8: at the end {each}" for each in self.unfinished()]
            return
        if not self.settle(lambda: not self._held_bytes, within_ms=5_000):
            self._box.complaints.append(f"P13: {self._held_bytes} bytes are held when all is done")
        self._probe_slots()
        self._probe_watermark()
        self._box.owner.revoke(3_600_000)
        self.settle(lambda: self._box.owner.stand is Stand.AWAY, gains=False)
        if self._box.owner.stand is not Stand.AWAY:
            self._box.complaints.append("P14: nothing runs, and a drain does not end")

    def _isolate(self) -> None:
        """Let some attempts last, and what holds its ordering id hold it: all others go on, and
        what is behind those leaves memory.
        """
        sick = self._choose_sick()
        self.settle(
            lambda: not self._delayed(sick),
            slow=lambda run: run in sick,
            within_ms=ISOLATION_MS,
        )
        self._box.complaints += [f"P7: {key} waits for others" for key in self._delayed(sick)]
        calm_ms = self._box.clock.monotonic_ms() + 3 * self._window.slow_attempt_ms
        self.settle(lambda: self._box.clock.monotonic_ms() >= calm_ms, slow=lambda run: run in sick)
        behind = self._behind(sick)
        self._box.complaints += [f"P7: {key} is in memory, behind another" for key in behind]

    def _choose_sick(self) -> list[HandRun]:
        """Choose attempts that run: fewer than there are slots for, with what holds its id."""
        kinds, sick = self._box.configuration.kinds, list[HandRun]()
        holders = self._box.configuration.ids if {BLOCKING, UNKNOWN} & set(kinds) else 0
        most = 1 if self._box.configuration.flows else self._window.slots - 1 - holders
        for run in self._box.rng.sample(self._box.runner.can_end, len(self._box.runner.can_end)):
            batch = self._box.runner.batch_of(run)
            if len(sick) + len(batch) <= most:
                sick += batch
        return sick

    def _delayed(self, sick: list[HandRun]) -> list[TaskKey]:
        """Return what is open, due, and waits for nothing that it has to wait for."""
        held = self._held_ids(sick)
        now_ms = self._box.clock.now_ms()
        return [
            key
            for key in self._box.ledger.open_keys()
            if key.scheduled_ms <= now_ms and not self._is_behind(key, held, sick)
        ]

    def _behind(self, sick: list[HandRun]) -> list[TaskKey]:
        held = self._held_ids(sick)
        due_ms = self._box.clock.now_ms() - self._window.slow_attempt_ms
        found = [
            key
            for key in remembered(self._box.truth, self._box.ledger, self._box.history)
            if key.scheduled_ms < due_ms and self._is_behind(key, held, sick)
        ]
        # What no executor is known for is at hand, though no attempt of it was asked for.
        first = {
            key.ordering_id: key
            for key in reversed(found)
            if self._box.producer.kind_of(key) == UNKNOWN
        }
        return [key for key in found if first.get(key.ordering_id) != key]

    def _held_ids(self, sick: list[HandRun]) -> set[str]:
        """Return the ordering ids whose tasks with an order wait."""
        held = {run.key.ordering_id for run in sick if not run.attempt.is_unordered}
        held |= {key.ordering_id for key in self._box.exhausted if self._box.ledger.is_open(key)}
        held |= {each.ordering_id for each in self._box.owner.sheet.pauses}
        if not self._box.knows_all:
            unknown = (
                key
                for key in self._box.ledger.open_keys()
                if self._box.producer.kind_of(key) == UNKNOWN
            )
            held |= {key.ordering_id for key in unknown}
        return held

    def _is_behind(self, key: TaskKey, held: set[str], sick: list[HandRun]) -> bool:
        kind = self._box.producer.kind_of(key)
        if self._box.owner.is_paused(key.ordering_id):
            return True
        if kind not in PLACES:
            return key.ordering_id in held
        alike = [
            run
            for run in sick
            if run.key.ordering_id == key.ordering_id and run.attempt.task.kind == kind
        ]
        return key in {run.key for run in sick} or len(alike) == PLACES[kind]

    def _probe_watermark(self) -> None:
        """Where nothing is open the watermark passes all rows, and then is seldom written."""
        box, settings = self._box, self._box.settings.tree.watermark
        last_ms = max((key.scheduled_ms for key in box.ledger.known_keys()), default=0)
        if not self.settle(
            lambda: box.data.claims[PARTITION].watermark.watermark_ms > last_ms, within_ms=5_000
        ):
            self._complain("P8: nothing is open, and the next owner would read all of it again")
        kind, idle_ms = "save_watermark", 40 * settings.lag_ms
        before, until_ms = box.deliveries.counts[kind], box.clock.monotonic_ms() + idle_ms
        self.settle(lambda: box.clock.monotonic_ms() >= until_ms)
        saves = box.deliveries.counts[kind] - before
        if saves > SAVES_MAX:
            self._complain(f"P8: an idle partition wrote {saves} watermarks in {idle_ms} ms")

    def _probe_slots(self) -> None:
        """Let more ids have a due task than there are slots: each slot is there, once."""
        slots, clock = self._window.slots, self._box.clock
        self._box.producer.append_probes(slots + 3)
        until_ms = clock.monotonic_ms() + 300
        self.settle(lambda: clock.monotonic_ms() >= until_ms, slow=lambda _run: True)
        taken = len(self._box.runner.unended)
        if taken != slots:
            self._complain(f"P13: {taken} tasks run where there are {slots} slots")
        self.settle(lambda: not self.unfinished())
