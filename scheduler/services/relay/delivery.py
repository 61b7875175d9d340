"""The task that passes a message on.

A message with an id is passed on only when the claim of that id is known to be its own: until the
claim is decided, the delivery waits, and so do the tasks behind it. After that its claim is kept
for an hour only.
"""

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from functools import partial

import msgspec

from hourhand.actors.model.execution.outcome import Drop, Outcome, Retry
from hourhand.actors.model.operations.events import MessageRelayed
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.definition import Definition
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.values.errors import CallerError, StoreUnavailable, TopicMissing
from hourhand.actors.model.values.instant import from_millis
from hourhand.actors.ports.log import LogWriter
from hourhand.scheduler.node.system_executor import ImmediateWork, SystemExecutor
from hourhand.scheduler.ports.messages import MessageWriter
from hourhand.scheduler.runtime.awaiting import settled
from hourhand.scheduler.runtime.light_future import LightFuture, resolve, then
from hourhand.scheduler.services.relay.claim_state import (
    CLAIM_KEPT_MS,
    ClaimState,
    DecidedHere,
    MessageClaim,
    claim_name,
    passed_on,
    place_parts,
)
from hourhand.scheduler.services.relay.gathering import ClaimRequest, single_claim
from hourhand.scheduler.services.relay.headers import RelayAction
from hourhand.scheduler.services.relay.message import Delivery, Message, parked_name
from hourhand.scheduler.services.system.system_tasks import SystemDependencies

_LOOK_AGAIN_MS = 10
_PAUSE_MAX_MS = 10_000
_WAITS_S = (0.0, 0.2, 1.0, 5.0)
"""Seconds of waiting before each look at a claim that is not decided."""
MOVED_ON = "moved to another time"
"""The reason in the completion of a dropped delivery whose message still waits."""


_decode_delivery = msgspec.json.Decoder(Delivery).decode


class _PassedOn:
    """A parked message that was passed on before a crash kept its task open."""


class DeliverMessage(SystemExecutor):
    """Passes one message on."""

    unslotted = True
    """It needs no worker slot, so its wait for a claim stops no other task."""

    def __init__(
        self,
        dependencies: SystemDependencies,
        messages: Callable[[], MessageWriter],
        letters: LogWriter,
        allows: Callable[[str, bool], bool],
        decided: DecidedHere,
    ) -> None:
        """``allows`` returns True if a topic may be a target, of a relayed message or of another
        one.
        """
        self._dependencies = dependencies
        self._messages = messages
        self._letters = letters
        self._allows = allows
        self._decided = decided
        self._awaited_id = ""

    def drain(self) -> None:
        """Stop waiting for decisions: this node may be the one that can no longer decide."""
        super().drain()
        self._decided.release(self._awaited_id)

    def immediate(self, task: StoredTask) -> ImmediateWork | None:
        """Return work that passes a message on at once, if nothing must be waited for."""
        try:
            delivery = _decode_delivery(task.data)
        except msgspec.MsgspecError:
            return None
        message, row = delivery.message, None
        if message is None:
            return None
        if delivery.id is not None and delivery.place is not None:
            row = self._decided.take(delivery.id, delivery.place, task.key.scheduled_ms)
            if row is None:
                return None
        relayed = delivery.id is not None

        def work() -> "Future[Outcome | None]":
            outcome = self._produce(task.key, message, relayed=relayed, offset=task.offset)
            if row is not None:
                outcome.add_done_callback(partial(self._let_expire, row))
            return outcome

        return work

    async def execute(self, task: Task) -> Outcome | None:
        """Wait until the id's claim is known to be this message's, then produce it."""
        try:
            delivery = msgspec.convert(task.data, Delivery)
            if delivery.place is not None:
                place_parts(delivery.place)
        except (msgspec.ValidationError, ValueError) as error:
            return Drop(f"its data is not a delivery: {error}")
        if delivery.message is None and delivery.parked is None:
            return Drop("its data holds no message")
        for look in range(self._dependencies.looks_max):
            # A claim is usually decided within milliseconds; a further attempt, or frequent reads
            # of the store, would delay that.
            await self._wait_for_decision(delivery, look)
            state, row = await self._claim_state(task, delivery)
            if state is not ClaimState.UNDECIDED or self.is_draining:
                break
        if state is ClaimState.UNDECIDED:
            return Retry(after=self._pause())
        if state is ClaimState.LOST:
            return Drop("another message of this id waited, or this one was cancelled")
        claim = None if row is None else msgspec.json.decode(row.rule, type=MessageClaim)
        # A later command moved it to a time that the claim does not know.
        if claim is not None and task.key.scheduled_ms in claim.times_ms[:-1]:
            return await self._move(task, claim)
        message = await self._message_of(delivery)
        if message is None:
            # The row is written at the same time as this task, so it may be missing for a moment.
            late_ms = self._dependencies.clock.now_ms() - task.key.scheduled_ms
            gone = late_ms >= CLAIM_KEPT_MS
            return Drop("its parked message is missing") if gone else Retry(after=self._pause())
        if not isinstance(message, Message):
            return Drop("it was passed on before")
        relayed, offset = delivery.id is not None, self.record_offset
        outcome = await settled(self._produce(task.key, message, relayed=relayed, offset=offset))
        if delivery.parked is not None:
            await self._unpark(delivery.parked)
        if row is not None:
            with suppress(StoreUnavailable):
                await settled(self._release(row))
        return outcome

    async def _claim_state(
        self, task: Task, delivery: Delivery
    ) -> "tuple[ClaimState, Definition | None]":
        """Return the known state of the claim, and the row that proves it."""
        if delivery.id is None or delivery.place is None:
            return ClaimState.CLAIMED, None
        row = self._decided.take(delivery.id, delivery.place, task.key.scheduled_ms)
        if row is not None:
            return ClaimState.CLAIMED, row
        row = await settled(self._dependencies.definitions.find(claim_name(delivery.id)))
        if row is None or row.ended:
            await self._claim_again(task, delivery.id, delivery.place)
            return ClaimState.UNDECIDED, None
        return msgspec.json.decode(row.rule, type=MessageClaim).state_of(delivery.place), row

    async def _claim_again(self, task: Task, message_id: str, place: str) -> None:
        """Claim the id of a message that is so late that its claim may have expired.

        Only the claim of a message that was passed on expires after an hour: then the process died,
        and an outage followed. If the claim is still to be decided, this one changes nothing.
        """
        late_ms = self._dependencies.clock.now_ms() - task.key.scheduled_ms
        # Ever more rarely: many deliveries may wait for as long as no claim is decided.
        if late_ms >= CLAIM_KEPT_MS and self.attempt.bit_count() == 1:
            due_ms, now_ms = task.key.scheduled_ms, self._dependencies.clock.now_ms()
            ids = (message_id, place, task.ordering_id)
            request = ClaimRequest(RelayAction.SCHEDULE, *ids, due_ms, now_ms)
            appender = self._dependencies.appender
            await settled(appender.append_json(*single_claim(request, appender.partition_count)))

    def _let_expire(self, row: Definition, passed: "Future[Outcome | None]") -> None:
        """Release a claim if its message was passed on; the caller does not wait for it."""
        if passed.exception() is None:
            self._release(row).add_done_callback(lambda saved: saved.exception())

    def _release(self, row: Definition) -> "Future[None]":
        """Let the claim of a message that was passed on, or put aside, expire.

        A failure does no harm: the claim is only kept longer.
        """
        now_ms = self._dependencies.clock.now_ms()
        if row.expires_ms is not None and row.expires_ms <= now_ms + CLAIM_KEPT_MS:
            released = LightFuture[None]()
            released.set_result(None)
            return released
        return self._dependencies.definitions.save(passed_on(row, now_ms))

    async def _wait_for_decision(self, delivery: Delivery, look: int) -> None:
        """Wait before a look at the claim; before the first look only if the claim is decided
        here.
        """
        if delivery.id is None or delivery.place is None or self._dependencies.looks_max == 1:
            return
        ordering_id = claim_name(delivery.id).ordering_id
        partition = self._dependencies.appender.partition_of(ordering_id)
        now_ms = self._dependencies.clock.monotonic_ms()
        here = self._decided.will_decide(partition, delivery.place, now_ms)
        if wait_s := _WAITS_S[-1 if here else min(look, len(_WAITS_S) - 1)]:
            self._awaited_id = delivery.id
            await self._decided.wait(delivery.id, wait_s, lambda: self.is_draining)

    def _pause(self) -> timedelta:
        doubled = min(self.attempt + self._dependencies.looks_max - 2, 10)
        pause_ms = min(_PAUSE_MAX_MS, _LOOK_AGAIN_MS * 2**doubled)
        return timedelta(milliseconds=pause_ms)

    async def _move(self, task: Task, claim: MessageClaim) -> Outcome:
        """Move to the claim's time: the command for that came before the delivery was there."""
        moved = task.model_copy(update={"scheduled_time": from_millis(claim.times_ms[-1])})
        await settled(self._dependencies.appender.append(moved))
        return Drop(MOVED_ON)

    async def _message_of(self, delivery: Delivery) -> "Message | _PassedOn | None":
        """Return the message; None if it is missing, perhaps only for a moment."""
        if delivery.parked is None:
            return delivery.message
        name = parked_name(delivery.parked)
        row = await settled(self._dependencies.definitions.find(name))
        if row is None:
            return None
        if row.ended:
            return _PassedOn()
        return msgspec.msgpack.decode(row.rule, type=Message)

    async def _unpark(self, place: str) -> None:
        expires_ms = self._dependencies.clock.now_ms() + CLAIM_KEPT_MS
        row = Definition(parked_name(place), 1, b"", None, expires_ms)
        await settled(self._dependencies.definitions.save(row))

    def _produce(
        self, key: TaskKey, message: Message, *, relayed: bool, offset: int
    ) -> "Future[Outcome | None]":
        """Pass it on without blocking: the future holds the outcome."""
        if not self._allows(message.topic, relayed):
            why = "relay.target_topics does not name it"
            return self._put_aside(key, message, why, offset)
        outcome = LightFuture[Outcome | None]()

        def take(produced: "Future[None]") -> None:
            error = produced.exception()
            if isinstance(error, CallerError | TopicMissing):
                # A retry cannot help, and the tasks behind it must go on.
                aside = self._put_aside(key, message, str(error), offset)
                aside.add_done_callback(lambda done: resolve(outcome, done.result))
            elif error is not None:
                outcome.set_exception(error)
            else:
                late_ms = self._dependencies.clock.now_ms() - key.scheduled_ms
                self._dependencies.telemetry.emit(MessageRelayed(late_ms))
                outcome.set_result(None)

        content = (message.topic, message.key, message.value, message.headers)
        self._messages().produce(*content).add_done_callback(take)
        return outcome

    def _put_aside(
        self, key: TaskKey, message: Message, why: str, offset: int
    ) -> "Future[Outcome | None]":
        """Write a message that can never be passed on to the dead-letter topic."""
        reason = f"message for topic {message.topic!r} not passed on: {why}"
        now_ms = self._dependencies.clock.now_ms()
        partition = self._dependencies.appender.partition_of(key.ordering_id)
        letter = LogRecord(partition, offset, now_ms, message.key, message.value, message.headers)
        return then(self._letters.dead_letter(letter, reason), lambda _written: Drop(reason))
