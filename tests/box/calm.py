"""The end of a box: nothing fails any more, and all that can go on does.

First some tasks are held up, and all others must be done; then everything must be, and what the
subtree took must be given back.  It says what is missing; everything else is told by the ledger.
"""

from collections.abc import Callable

from hourhand.actors.model.execution.attempts import Ending
from hourhand.actors.model.operations.pauses import PauseScope
from hourhand.actors.model.task.codec import CommandKind
from tests.box.box import Box
from tests.box.hand_runner import HandRun, Step
from tests.box.isolation import Isolation
from tests.box.kinds import TENANT, UNKNOWN
from tests.box.memory import remembered
from tests.box.owner import PARTITION, Stand

SETTLE_MS = 120_000.0
"""Virtual time in which everything must be done once nothing disturbs the subtree."""
SAVES_MAX = 8
"""Saves of the watermark while nothing is scheduled: a few because memory reaches further."""


class CalmEnd:
    """The last part of one box."""

    def __init__(self, box: Box) -> None:
        self.box = self._box = box
        self._window = box.settings.tree.window
        self._drops_blocked = False
        """True if somebody drops what holds its ordering id."""

    def _complain(self, sentence: str) -> None:
        self._box.complaints.append(sentence)

    @property
    def _used_bytes(self) -> int:
        return self._box.effects.memory.used_bytes

    def make_peace(self) -> None:
        """End what fails, and what pauses the whole partition."""
        self._box.deliveries.failing = 0.0
        self._drops_blocked = False
        kept = [each for each in self._box.owner.config.pauses if each.scope is PauseScope.ORDERING]
        self._box.unpause(tuple(kept))

    def _end_holds(self) -> None:
        """End all pauses, drop what holds its ordering id, and know all kinds."""
        self._drops_blocked = True
        self._box.unpause()
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
        """Let everything go on, except for attempts that are ``slow``, until it is done.

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
        """Return what is not done, except for some ordering ids."""
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
        if self._box.owner.revoked_at_ms is not None:
            # Nothing can be held up while the partition is given up.
            self.settle(lambda: self._box.owner.revoked_at_ms is None)
        Isolation(self).check()
        self._end_holds()
        if not self.settle(lambda: not self.unfinished()):
            self._box.complaints += [f"P8: at the end {each}" for each in self.unfinished()]
            return
        if not self.settle(lambda: not self._used_bytes, within_ms=5_000):
            self._box.complaints.append(f"P13: {self._used_bytes} bytes are used when all is done")
        self._probe_slots()
        self._probe_burst()
        self._probe_flows()
        self._probe_window()
        self._probe_watermark()
        self._box.owner.revoke(3_600_000)
        self.settle(lambda: self._box.owner.stand is Stand.AWAY, gains=False)
        if self._box.owner.stand is not Stand.AWAY:
            self._box.complaints.append("P14: nothing runs, and a drain does not end")

    def _probe_watermark(self) -> None:
        """If nothing is open, the watermark passes all rows, and then is seldom written."""
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

    def _probe_burst(self) -> None:
        """Let much of one ordering id fall due at once: it leaves a slot to another."""
        is_roomy = self._window.slots > 1 + self._window.ordering_queue_tasks_max
        if self._box.configuration.flows or self._box.configuration.pad_bytes or not is_roomy:
            # A flow, few bytes, or the queue of one id, may leave less than a slot.
            return
        producer, clock = self._box.producer, self._box.clock
        crowd, other = producer.fresh_ids(2)
        until_ms = clock.monotonic_ms() + 50
        for _ in range(self._window.slots + 3):
            producer.append_plain(crowd)
        self.settle(lambda: clock.monotonic_ms() >= until_ms, slow=lambda _run: True)
        producer.append_plain(other)
        until_ms = clock.monotonic_ms() + 1
        self.settle(lambda: clock.monotonic_ms() >= until_ms, slow=lambda _run: True)
        if not any(run.key.ordering_id == other for run in self._box.runner.unended):
            self._complain("P7: what is due of one ordering id leaves no slot to another")
        self.settle(lambda: not self.unfinished())

    def _probe_flows(self) -> None:
        """Let one tenant's tasks be more than there are slots, and last: others begin."""
        if not self._box.configuration.flows:
            return
        producer, clock = self._box.producer, self._box.clock
        *crowd, first, second = producer.fresh_ids(self._window.slots + 6)
        for ordering_id in crowd:
            producer.append_plain(ordering_id, TENANT, tenant="crowd")
        until_ms = clock.monotonic_ms() + 300
        self.settle(lambda: clock.monotonic_ms() >= until_ms, slow=lambda _run: True)
        for ordering_id in (first, second):
            producer.append_plain(ordering_id, TENANT)
        until_ms = clock.monotonic_ms() + 300
        self.settle(lambda: clock.monotonic_ms() >= until_ms, slow=lambda _run: True)
        running = {run.key.ordering_id for run in self._box.runner.unended}
        if not running & {first, second}:
            self._complain("P7: one tenant has all slots, and no other begins")
        self.settle(lambda: not self.unfinished())

    def _probe_window(self) -> None:
        """Let more be due soon than memory may hold, and look how much of it is there."""
        box, tasks_max = self._box, self._window.tasks_max
        in_ms, until_ms = 900, box.clock.monotonic_ms() + 400
        for ordering_id in box.producer.fresh_ids(2 * tasks_max):
            box.producer.append_due(in_ms, ordering_id)
        self.settle(lambda: box.clock.monotonic_ms() >= until_ms)
        held = len(list(remembered(box.truth, box.ledger, box.history)))
        if held > tasks_max:
            self._complain(f"P13: {held} tasks are in memory, which may hold {tasks_max}")
        memory = box.effects.memory
        if memory.used_bytes > memory.limit_bytes:
            self._complain(f"P13: {memory.used_bytes} bytes are used, of {memory.limit_bytes}")
        if not self.settle(lambda: not self.unfinished()):
            box.complaints += [f"P8: what memory had no room for: {x}" for x in self.unfinished()]

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
