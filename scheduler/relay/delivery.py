"""A message on its way: how it is written into a task, and the task that passes it on.

The task's ordering id is made from the message's key, so messages of one key keep their order.
Where the message has an id, it is passed on only when that id is known to be this message's:
until its claim is decided, the delivery waits, and with it what stands behind it.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from enum import Enum, auto
from urllib.parse import quote_from_bytes

import msgspec

from actors.model.codec import LogRecord
from actors.model.definition import RESERVED, Definition, DefinitionKind, DefinitionName
from actors.model.errors import CallerError, TopicMissing
from actors.model.events import MessageRelayed
from actors.model.instant import from_millis
from actors.model.outcome import Drop, Outcome, Retry
from actors.model.task import Task
from actors.ports.log import LogWriter
from actors.ports.messages import MessageWriter
from scheduler.awaiting import settled
from scheduler.own_tasks import OwnExecutor, Surroundings

SEND = "send"
"""The kind of ordering ids that deliveries have."""

_KEY_CHARS_MAX = 400
_LOOK_AGAIN_MS = 10
_PAUSE_MAX_MS = 10_000
DECIDED_MAX = 200_000
CLAIM_KEPT_MS = 3_600_000
"""How long the claim of an id outlives its message, before the row may vanish."""


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Kafka message, byte for byte."""

    topic: str
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def size_bytes(self) -> int:
        """What it takes in a task, before it is written as text."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


class DecidedHere:
    """What claims this process decided, so that deliveries need not ask the store.

    That a message has its id never changes until it was passed on, whoever owns the id by then;
    so what is remembered stays true.  Used from one event loop.
    """

    def __init__(self) -> None:
        self._claimed: OrderedDict[str, tuple[str, int]] = OrderedDict()

    def note(self, message_id: str, claim: "Claim") -> None:
        """Remember which message an id stands for, and when that is due."""
        self._claimed.pop(message_id, None)
        if claim.place:
            self._claimed[message_id] = (claim.place, claim.times_ms[-1])
        if len(self._claimed) > DECIDED_MAX:
            self._claimed.popitem(last=False)

    def take(self, message_id: str, place: str, due_ms: int) -> bool:
        """Return whether the id is known to be this message's, due then; and forget it."""
        if self._claimed.get(message_id) != (place, due_ms):
            return False
        del self._claimed[message_id]
        return True


class Delivery(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The data of a task that passes a message on: itself, or where it is parked."""

    message: Message | None = None
    parked: str | None = None
    id: str | None = None
    """Its id, where it has one: the claim must be this message's."""
    place: str | None = None
    """What tells this message from others of the same id."""


class Claim(msgspec.Struct, frozen=True, rename="camel"):
    """Which message an id stands for: the rule of a relay id's definition."""

    place: str
    """Of the message; empty where it was cancelled."""
    ordering_id: str
    """Of its delivery."""
    times_ms: tuple[int, ...]
    """When its delivery is due; the last one counts, the others it was moved from."""
    decided: dict[str, int]
    """By partition of the in-topic: the last record of this id that was decided."""

    def has_decided(self, place: str) -> bool:
        """Whether the record at a place was decided, this one's or another's way."""
        partition, offset = place_parts(place)
        return self.decided.get(partition, -1) >= offset

    def deciding(self, place: str) -> "Claim":
        """Return the claim with the record at a place among those decided."""
        partition, offset = place_parts(place)
        decided = {**self.decided, partition: max(offset, self.decided.get(partition, -1))}
        return msgspec.structs.replace(self, decided=decided)


def place_of(partition: int, offset: int) -> str:
    """Return the text that tells a record of the in-topic from every other, in their order."""
    return f"{partition:05d}-{offset:019d}"


def place_parts(place: str) -> tuple[str, int]:
    """Return partition and offset of a place."""
    partition, _, offset = place.partition("-")
    return partition, int(offset)


def ordering_id_of(key: bytes | None, place: str) -> str:
    """Return the ordering id of a delivery: one for each key; a null key has no order."""
    if key is None:
        return f"{RESERVED}{SEND}:-{place}"
    text = quote_from_bytes(key, safe="")
    if len(text) > _KEY_CHARS_MAX:
        return f"{RESERVED}{SEND}:#{hashlib.sha256(key).hexdigest()}"
    return f"{RESERVED}{SEND}:={text}"


def delivery_task(due_ms: int, unique: str, key: bytes | None, delivery: Delivery) -> Task:
    """Return the task that passes a message on at a time."""
    return Task.model_construct(
        ordering_id=ordering_id_of(key, unique),
        scheduled_time=from_millis(due_ms),
        uniqueness_key=unique,
        data=msgspec.to_builtins(delivery),
    )


def parked_name(place: str) -> DefinitionName:
    """Return the name of the row that holds a message too long for a task."""
    return DefinitionName(DefinitionKind.PARKED, place)


def parked(place: str, message: Message) -> Definition:
    """Return the row that holds a message too long for a task."""
    return Definition(parked_name(place), 0, msgspec.msgpack.encode(message))


class _Standing(Enum):
    """What is known of a message's claim to its id."""

    CLAIMED = auto()
    UNDECIDED = auto()
    LOST = auto()


class _PassedOn:
    """Stands for a message that was parked and passed on, before a crash kept its task open."""


class DeliverMessage(OwnExecutor):
    """Passes one message on."""

    def __init__(
        self,
        surroundings: Surroundings,
        messages: Callable[[], MessageWriter],
        letters: LogWriter,
        allows: Callable[[str, bool], bool],
        decided: DecidedHere,
    ) -> None:
        """``allows`` says whether a topic may be a target, of a relayed message or another."""
        self._surroundings = surroundings
        self._messages = messages
        self._letters = letters
        self._allows = allows
        self._decided = decided

    async def execute(self, task: Task) -> Outcome | None:
        """Wait until the id is known to be this message's, then produce it."""
        try:
            delivery = msgspec.convert(task.data, Delivery)
            if delivery.place is not None:
                place_parts(delivery.place)
        except (msgspec.ValidationError, ValueError) as error:
            return Drop(f"its data is no delivery: {error}")
        if delivery.message is None and delivery.parked is None:
            return Drop("its data holds no message")
        for look in range(self._surroundings.looks_max):
            if look:
                # Decided within milliseconds, as a rule: an attempt of its own would cost more.
                await asyncio.sleep(_LOOK_AGAIN_MS * 2**look / 1000)
            standing, claim = await self._standing(task, delivery)
            if standing is not _Standing.UNDECIDED:
                break
        if standing is _Standing.UNDECIDED:
            return Retry(after=self._pause())
        if standing is _Standing.LOST:
            return Drop("another message of this id waited, or this one was cancelled")
        if claim is not None and claim.times_ms[-1] != task.key.scheduled_ms:
            return await self._move(task, claim)
        message = await self._message_of(delivery)
        if message is None:
            # Written at the same time as this task, it may not be there yet.
            late_ms = self._surroundings.clock.now_ms() - task.key.scheduled_ms
            gone = late_ms >= CLAIM_KEPT_MS
            return Drop("what was parked for it is gone") if gone else Retry(after=self._pause())
        if not isinstance(message, Message):
            return Drop("it was passed on before")
        outcome = await self._produce(task, message, relayed=delivery.id is not None)
        if delivery.parked is not None:
            await self._unpark(delivery.parked)
        return outcome

    async def _standing(self, task: Task, delivery: Delivery) -> "tuple[_Standing, Claim | None]":
        """Return whether the id is this message's, as far as is known now."""
        if delivery.id is None or delivery.place is None:
            return _Standing.CLAIMED, None
        if self._decided.take(delivery.id, delivery.place, task.key.scheduled_ms):
            return _Standing.CLAIMED, None
        name = DefinitionName(DefinitionKind.RELAY, delivery.id)
        row = await settled(self._surroundings.definitions.find(name))
        if row is None or row.ended:
            # Later than this the claim may have expired, which only a decided one can.
            late_ms = self._surroundings.clock.now_ms() - task.key.scheduled_ms
            expired = late_ms >= CLAIM_KEPT_MS
            return (_Standing.CLAIMED if expired else _Standing.UNDECIDED), None
        claim = msgspec.json.decode(row.rule, type=Claim)
        if claim.place == delivery.place:
            return _Standing.CLAIMED, claim
        lost = claim.has_decided(delivery.place)
        return (_Standing.LOST if lost else _Standing.UNDECIDED), claim

    def _pause(self) -> timedelta:
        pause_ms = min(_PAUSE_MAX_MS, _LOOK_AGAIN_MS * 2 ** min(self.attempt - 1, 10))
        return timedelta(milliseconds=pause_ms)

    async def _move(self, task: Task, claim: Claim) -> Outcome:
        """Go on at the time the claim says: the command that was to move it came before it."""
        moved = task.model_copy(update={"scheduled_time": from_millis(claim.times_ms[-1])})
        await settled(self._surroundings.appender.append(moved))
        return Drop("moved to another time")

    async def _message_of(self, delivery: Delivery) -> "Message | _PassedOn | None":
        """Return the message; None where it is not there, or not yet."""
        if delivery.parked is None:
            return delivery.message
        name = parked_name(delivery.parked)
        row = await settled(self._surroundings.definitions.find(name))
        if row is None:
            return None
        if row.ended:
            return _PassedOn()
        return msgspec.msgpack.decode(row.rule, type=Message)

    async def _unpark(self, place: str) -> None:
        expires_ms = self._surroundings.clock.now_ms() + CLAIM_KEPT_MS
        row = Definition(parked_name(place), 1, b"", None, expires_ms)
        await settled(self._surroundings.definitions.save(row))

    async def _produce(self, task: Task, message: Message, *, relayed: bool) -> Outcome | None:
        if not self._allows(message.topic, relayed):
            return await self._put_aside(task, message, "relay.target_topics does not name it")
        try:
            produced = self._messages().produce(
                message.topic, message.key, message.value, message.headers
            )
            await settled(produced)
        except (CallerError, TopicMissing) as error:
            # Trying again cannot help, and what stands behind it is to go on.
            return await self._put_aside(task, message, str(error))
        late_ms = self._surroundings.clock.now_ms() - task.key.scheduled_ms
        self._surroundings.telemetry.emit(MessageRelayed(late_ms))
        return None

    async def _put_aside(self, task: Task, message: Message, why: str) -> Outcome:
        """Write a message that can never be passed on to the dead-letter topic."""
        reason = f"message for topic {message.topic!r} not passed on: {why}"
        now_ms = self._surroundings.clock.now_ms()
        partition = self._surroundings.appender.partition_of(task.ordering_id)
        letter = LogRecord(
            partition, self.record_offset, now_ms, message.key, message.value, message.headers
        )
        await settled(self._letters.dead_letter(letter, reason))
        return Drop(reason)
