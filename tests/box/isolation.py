"""Some ordering ids are held up, and everything else has to go on as if they were not there.

Held up are ids of which an attempt lasts, or waits long for its next one, or which an operator has
paused, or has to look after.  It holds them up, asks for more work, and says what is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.window.read_ahead import ORDERING_ID_BYTES
from tests.box.hand_runner import HandRun
from tests.box.kinds import BLOCKING, PLACES, UNKNOWN
from tests.box.memory import remembered
from tests.box.owner import PARTITION

if TYPE_CHECKING:
    from tests.box.calm import CalmEnd

GO_ON_MS = 10_000.0
"""Virtual time in which all that waits for nobody must be done."""
PUT_OFF_MS = 60_000
"""Time for which a next attempt waits and holds its ordering id up."""


class Isolation:
    """The part of one box's end in which some ids are held up."""

    def __init__(self, calm: CalmEnd) -> None:
        self._calm, self._box = calm, calm.box
        self._window = self._box.settings.tree.window
        self._sick: list[HandRun] = []
        self._put_off: dict[TaskKey, int] = {}
        """Tasks whose next attempt waits, and until when."""

    def check(self) -> None:
        """Hold some ids up: all others go on, what is behind those leaves memory, and each costs
        no more than its one slot.
        """
        self._hold_up()
        self._go_on()
        self._look_behind()
        self._ask_for_more()
        self._go_on()
        self._look_behind()
        self._count_bytes()
        self._count_slots()
        self._look_at_watermark()

    def _look_behind(self) -> None:
        """Tasks behind something that lasts leave memory."""
        calm_ms = self._box.clock.monotonic_ms() + 3 * self._window.slow_attempt_ms
        self._settle_until(calm_ms)
        behind = self._behind()
        self._box.complaints += [f"P7: {key} is in memory, behind another" for key in behind]

    def _go_on(self) -> None:
        self._calm.settle(lambda: not self._delayed(), slow=self._is_sick, within_ms=GO_ON_MS)
        self._box.complaints += [f"P7: {key} waits for others" for key in self._delayed()]

    def _is_sick(self, run: HandRun) -> bool:
        return run in self._sick

    def _settle_until(self, end_ms: float) -> None:
        self._calm.settle(lambda: self._box.clock.monotonic_ms() >= end_ms, slow=self._is_sick)

    def _hold_up(self) -> None:
        """Choose attempts that run, fewer than there are slots for, with what holds its id."""
        box, kinds = self._box, self._box.configuration.kinds
        holders = box.configuration.ids if {BLOCKING, UNKNOWN} & set(kinds) else 0
        most = 1 if self._is_scarce() else self._window.slots - 1 - holders
        for run in box.rng.sample(box.runner.can_end, len(box.runner.can_end)):
            batch = self._with_alike(run)
            if run in self._sick or len(self._sick) + len(self._put_off) + len(batch) > most:
                continue
            if (
                not run.attempt.is_unordered
                and box.rng.random() < 0.4
                and box.runner.put_off(run, PUT_OFF_MS)
            ):
                self._put_off[run.key] = box.clock.now_ms() + PUT_OFF_MS
            else:
                self._sick += batch

    def _is_scarce(self) -> bool:
        """True if flows or bytes leave others less than the slots that nobody has."""
        return self._box.configuration.flows or self._box.configuration.pad_bytes > 0

    def _with_alike(self, run: HandRun) -> list[HandRun]:
        """Return a batch, or all places that tasks of one kind without order have."""
        if not run.attempt.is_unordered:
            return self._box.runner.batch_of(run)
        running = self._box.runner.can_end
        return [each for each in running if _place_of(each) == _place_of(run)]

    def _ask_for_more(self) -> None:
        """Append later records of what is held up, and tasks before and behind it."""
        for run in self._sick:
            self._box.producer.append_again(run.key)
            for in_ms in self._box.rng.choices((-3_000, -1, 0, 50), k=4):
                self._box.producer.append_due(in_ms, run.key.ordering_id)
        for _ in range(6):
            self._box.producer.append_new(late=self._box.rng.random() < 0.3)

    def _count_bytes(self) -> None:
        """A task in memory is open, and is counted once, with its largest record."""
        ledger, memory = self._box.ledger, self._box.effects.memory
        # Ids with unread rows are kept for a while, also when their rows are done.
        ids = {key.ordering_id for key in ledger.known_keys()}
        ids_most_bytes = sum(ORDERING_ID_BYTES + len(each) for each in ids)
        ids_bytes = sum(each.ids_bytes for each in memory._partitions.values())
        if ids_bytes > ids_most_bytes:
            self._complain(f"P13: {ids_bytes} bytes of ids are held, there are {ids_most_bytes}")
        tasks_bytes = memory.used_bytes - ids_bytes
        most_bytes = sum(map(ledger.largest_bytes, ledger.open_keys()))
        if tasks_bytes > most_bytes:
            self._complain(f"P13: {tasks_bytes} bytes are held, open tasks have {most_bytes}")

    def _count_slots(self) -> None:
        """Let more ids have a due task than slots are left."""
        box, clock = self._box, self._box.clock
        left = self._window.slots - len(self._sick) - len(self._waiting_ids())
        if left <= 0 or self._is_scarce():
            return
        before = set(map(id, box.runner.unended))
        box.producer.append_probes(left + 3)
        end_ms = clock.monotonic_ms() + 300
        self._calm.settle(lambda: clock.monotonic_ms() >= end_ms, slow=lambda _run: True)
        taken = sum(id(run) not in before for run in box.runner.unended)
        if taken < left:
            self._complain(f"P7: {taken} tasks run where {left} slots are left to others")
        self._go_on()

    def _look_at_watermark(self) -> None:
        """It passes what few ids are held up by, so a next owner does not read all again."""
        box, settings = self._box, self._box.settings.tree.watermark
        held = {key.ordering_id for key in box.ledger.open_keys()}
        if len(held) > settings.stragglers_max:
            return
        done_ms = max((key.scheduled_ms for key in box.ledger.known_keys()), default=0)
        if not self._calm.settle(
            lambda: box.data.claims[PARTITION].watermark.watermark_ms >= done_ms,
            slow=self._is_sick,
            within_ms=GO_ON_MS,
        ):
            self._complain(f"P8: {held} are held up, and the watermark does not pass the others")

    def _complain(self, sentence: str) -> None:
        self._box.complaints.append(sentence)

    # Waits and their causes.

    def _delayed(self) -> list[TaskKey]:
        """Return what is open, due, and waits for nothing that it has to wait for."""
        held = self._held_ids()
        now_ms = self._box.clock.now_ms()
        return [
            key
            for key in self._box.ledger.open_keys()
            if key.scheduled_ms <= now_ms and not self._is_behind(key, held)
        ]

    def _behind(self) -> list[TaskKey]:
        held = self._held_ids()
        due_ms = self._box.clock.now_ms() - self._window.slow_attempt_ms
        found = [
            key
            for key in remembered(self._box.truth, self._box.ledger, self._box.history)
            if key.scheduled_ms < due_ms and self._is_behind(key, held)
        ]
        # A task without a known executor is at hand, though no attempt of it was asked for.
        first = {
            key.ordering_id: key
            for key in reversed(found)
            if self._box.producer.kind_of(key) == UNKNOWN
        }
        return [key for key in found if first.get(key.ordering_id) != key]

    def _held_ids(self) -> set[str]:
        """Return the ordering ids whose tasks with an order wait."""
        held = {run.key.ordering_id for run in self._sick if not run.attempt.is_unordered}
        held |= self._kept_ids()
        held |= {each.ordering_id for each in self._box.owner.config.pauses}
        return held | self._waiting_ids()

    def _kept_ids(self) -> set[str]:
        """Return ids that were paused, and go on when all has ended that ran of them by then."""
        kept = (run for run in self._sick if run.begun_ms <= self._box.resumed_ms)
        return {run.key.ordering_id for run in kept}

    def _waiting_ids(self) -> set[str]:
        """Return those of which a task is at hand that no attempt is made of now."""
        now_ms, open_keys = self._box.clock.now_ms(), self._box.ledger.open_keys()
        put_off = (key for key, until_ms in self._put_off.items() if until_ms > now_ms)
        held = {key.ordering_id for key in (*self._box.exhausted, *put_off) if key in open_keys}
        if not self._box.knows_all:
            unknown = (key for key in open_keys if self._box.producer.kind_of(key) == UNKNOWN)
            held |= {key.ordering_id for key in unknown}
        return held

    def _is_behind(self, key: TaskKey, held: set[str]) -> bool:
        kind = self._box.producer.kind_of(key)
        if self._box.owner.is_paused(key.ordering_id) or key.ordering_id in self._kept_ids():
            return True
        if kind not in PLACES:
            return key.ordering_id in held
        alike = [
            each
            for each in (*(run.key for run in self._sick), *self._put_off)
            if each.ordering_id == key.ordering_id and self._box.producer.kind_of(each) == kind
        ]
        return key in alike or len(alike) == PLACES[kind]


def _place_of(run: HandRun) -> tuple[str, str | None]:
    return run.key.ordering_id, run.attempt.task.kind
