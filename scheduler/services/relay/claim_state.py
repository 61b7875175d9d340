"""The claim to an id: the row that names the id's message, and this process's knowledge of it.

Claims are decided in ``claims``; deliveries read them here.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import Enum, auto

import msgspec

from hourhand.actors.model.task.definition import Definition, DefinitionKind, DefinitionName
from hourhand.actors.model.task.key import TaskKey
from hourhand.scheduler.runtime.awaiting import settled
from hourhand.scheduler.runtime.light_future import LightFuture

CLAIM_KEPT_MS = 3_600_000
"""Time for which the claim of an id outlives its message, once that was passed on or cancelled. A
waiting message's claim is kept as long as completions are, so an outage within that time does not
lose it."""
ACTIVE_MS = 10_000
"""Time after a batch of claims for which this process counts as the one that decides a
partition."""
DECIDED_MAX = 200_000
"""Claims in memory; older decisions are read from the store again."""


class ClaimState(Enum):
    """The known state of a message's claim to its id."""

    CLAIMED = auto()
    UNDECIDED = auto()
    LOST = auto()


class MessageClaim(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The message of an id: the rule of a relay id's definition."""

    place: str
    """Place of the message; empty if it was cancelled."""
    ordering_id: str
    """Ordering id of its delivery."""
    times_ms: tuple[int, ...]
    """The due times of its delivery: the last one is current, the others are earlier ones."""
    decided: dict[str, int]
    """By source, a partition of the in-topic: the last record of this id that was decided."""
    idle: dict[str, int] = {}
    """The last cancel or move that found no message: when it is read again, it must not touch a
    later message."""

    @property
    def keys(self) -> list[TaskKey]:
        """The keys of its delivery, the current one last."""
        return [TaskKey(due_ms, self.ordering_id, self.place) for due_ms in self.times_ms]

    def state_of(self, place: str) -> ClaimState:
        """Return whether the message at a place holds the id, as a state."""
        if self.place == place:
            return ClaimState.CLAIMED
        return ClaimState.LOST if self.has_decided(place) else ClaimState.UNDECIDED

    def has_decided(self, place: str) -> bool:
        """True if the record at a place was decided, in favour of any record."""
        return _reaches(self.decided, place)

    def deciding(self, place: str) -> "MessageClaim":
        """Return the claim, with the record at a place marked as decided."""
        return msgspec.structs.replace(self, decided=_extended(self.decided, place))

    def was_idle(self, place: str) -> bool:
        """True if the record at a place, or a later one, found no message to cancel or move."""
        return _reaches(self.idle, place)

    def idling(self, place: str) -> "MessageClaim":
        """Return the claim, with the record at a place marked as one that found no message."""
        return msgspec.structs.replace(self, idle=_extended(self.idle, place))

    def idle_before(self, place: str) -> dict[str, int]:
        """Return the idle records, without those behind a place, which find the message there."""
        source, offset = place_parts(place)
        return {**self.idle, source: offset - 1} if self.was_idle(place) else self.idle


def _reaches(last_offsets: Mapping[str, int], place: str) -> bool:
    """True if the record at a place is at or before the last offset of its source."""
    source, offset = place_parts(place)
    return last_offsets.get(source, -1) >= offset


def _extended(last_offsets: Mapping[str, int], place: str) -> dict[str, int]:
    """Return the last offsets with the record at a place."""
    source, offset = place_parts(place)
    return {**last_offsets, source: max(offset, last_offsets.get(source, -1))}


class DecidedHere:
    """The claims that this process decided, so that deliveries need not ask the store.

    A message holds its id until it is passed on, whoever owns the id later, so a remembered claim
    stays true. Used from any thread: each step is one operation of the dictionary.
    """

    def __init__(self) -> None:
        self._claimed: OrderedDict[str, tuple[str, int, Definition]] = OrderedDict()
        self._awaited: defaultdict[str, list[LightFuture[None]]] = defaultdict(list)
        self._active_ms: dict[int, float] = {}
        self._reached: dict[tuple[int, str], int] = {}
        """By partition of the claims and of the in-topic: the last offset decided here."""

    def note(self, row: Definition, claim: MessageClaim) -> None:
        """Remember a durable claim: the id's message, and its due time."""
        message_id = row.name.id
        self._claimed.pop(message_id, None)
        if claim.place:
            self._claimed[message_id] = (claim.place, claim.times_ms[-1], row)
        if len(self._claimed) > DECIDED_MAX:
            self._claimed.popitem(last=False)
        self.release(message_id)

    def note_decided(self, partition: int, places: Iterable[str], now_ms: float) -> None:
        """Remember which claims of a partition were decided here, and when (monotonic time)."""
        self._active_ms[partition] = now_ms
        for place in places:
            source, offset = place_parts(place)
            last = self._reached.get((partition, source), -1)
            self._reached[partition, source] = max(offset, last)

    def will_decide(self, partition: int, place: str, now_ms: float) -> bool:
        """True if this process decides claims of a partition, and has not reached a place yet.

        Claims reach their partition in the order of the in-topic. A delivery that asks the store
        for a claim which this process will decide delays that decision if the backlog is long.
        """
        source, offset = place_parts(place)
        active = now_ms - self._active_ms.get(partition, -ACTIVE_MS) < ACTIVE_MS
        return active and offset > self._reached.get((partition, source), offset)

    async def wait(
        self, message_id: str, timeout_s: float, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        """Wait until a claim of an id is noted here, on the event loop that notes it.

        Returns at once if one was noted since the last wait, or if ``is_over`` returns True; when
        that changes later, ``release`` must be called.
        """
        if message_id in self._claimed:
            return
        waiter, waiting = LightFuture[None](), self._awaited[message_id]
        waiting.append(waiter)
        try:
            # Asked after the waiter was added, so that ``release`` finds it from here on.
            if not is_over():
                with suppress(TimeoutError):
                    await settled(waiter, timeout_s)
        finally:
            waiting.remove(waiter)
            if not waiting and self._awaited.get(message_id) is waiting:
                self._awaited.pop(message_id, None)

    def release(self, message_id: str) -> None:
        """Wake the waiters of an id, which then check ``is_over``; from any thread."""
        for waiter in tuple(self._awaited.pop(message_id, ())):
            waiter.set_result(None)

    def take(self, message_id: str, place: str, due_ms: int) -> Definition | None:
        """Return and forget the claim of an id, if it is known to be this message's with this due
        time.

        None if that is not known.
        """
        claimed_place, claimed_ms, row = self._claimed.get(message_id, ("", 0, None))
        if (claimed_place, claimed_ms) != (place, due_ms):
            return None
        self._claimed.pop(message_id, None)
        return row


def passed_on(row: Definition, now_ms: int) -> Definition:
    """Return the claim of a message that was passed on: the same, but it expires in an hour.

    It loses against every decision about the id after ``row``: see ``offset_of_decision``.
    """
    return Definition(row.name, row.offset + 1, row.rule, row.next_ms, now_ms + CLAIM_KEPT_MS)


def offset_of_decision(record_offset: int, found: Definition | None) -> int:
    """Return the offset of a claim that replaces ``found``, and the claim of its passed-on
    message.
    """
    return record_offset if found is None else max(record_offset, found.offset + 2)


def claim_name(message_id: str) -> DefinitionName:
    """Return the name of the row that holds a relay id's claim."""
    return DefinitionName(DefinitionKind.RELAY, message_id)


def place_of(partition: int, offset: int, topic_id: str = "") -> str:
    """Return a text that identifies a record of the in-topic; texts sort in the records' order.

    Offsets begin again in a topic that was deleted and made again: ``topic_id`` tells its records
    from the old ones.
    """
    source = f"{topic_id}.{partition:05d}" if topic_id else f"{partition:05d}"
    return f"{source}-{offset:019d}"


def place_parts(place: str) -> tuple[str, int]:
    """Return the source, which is a partition of a topic, and the offset of a place."""
    partition, _, offset = place.partition("-")
    return partition, int(offset)
