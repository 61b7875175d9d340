"""The claim to an id: the row that says which message has it, and what this process knows of it.

Decides nothing: claims do, and deliveries ask.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import Enum, auto

import msgspec

from actors.model.definition import Definition, DefinitionKind, DefinitionName
from actors.model.key import TaskKey
from scheduler.futures.awaiting import settled
from scheduler.futures.light_future import LightFuture

CLAIM_KEPT_MS = 3_600_000
"""How long the claim of an id outlives its message, once that was passed on or cancelled.  One
that waits is kept for as long as completions are, so that no outage within that loses it."""
ACTIVE_MS = 10_000
"""So long after a batch of claims its partition counts as decided here."""
DECIDED_MAX = 200_000
"""Claims remembered; what was decided before is read again."""


class ClaimState(Enum):
    """What is known of a message's claim to its id."""

    CLAIMED = auto()
    UNDECIDED = auto()
    LOST = auto()


class MessageClaim(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Which message an id stands for: the rule of a relay id's definition."""

    place: str
    """Of the message; empty where it was cancelled."""
    ordering_id: str
    """Of its delivery."""
    times_ms: tuple[int, ...]
    """When its delivery is due; the last one counts, the others it was moved from."""
    decided: dict[str, int]
    """By source, a partition of the in-topic: the last record of this id that was decided."""
    idle: dict[str, int] = {}
    """The last record that was to cancel or move a message and found none: read again, it must
    leave a later one alone."""

    @property
    def keys(self) -> list[TaskKey]:
        """The keys that its delivery has or had, the present one last."""
        return [TaskKey(due_ms, self.ordering_id, self.place) for due_ms in self.times_ms]

    def state_of(self, place: str) -> ClaimState:
        """Return whether the message at a place has the id."""
        if self.place == place:
            return ClaimState.CLAIMED
        return ClaimState.LOST if self.has_decided(place) else ClaimState.UNDECIDED

    def has_decided(self, place: str) -> bool:
        """Whether the record at a place was decided, this one's or another's way."""
        return _reaches(self.decided, place)

    def deciding(self, place: str) -> "MessageClaim":
        """Return the claim with the record at a place among those decided."""
        return msgspec.structs.replace(self, decided=_extended(self.decided, place))

    def was_idle(self, place: str) -> bool:
        """Whether the record at a place, or a later one, found no message to cancel or move."""
        return _reaches(self.idle, place)

    def idling(self, place: str) -> "MessageClaim":
        """Return the claim with the record at a place among those that found no message."""
        return msgspec.structs.replace(self, idle=_extended(self.idle, place))

    def idle_before(self, place: str) -> dict[str, int]:
        """Return what was idle, but for records behind a place: they find the message there."""
        source, offset = place_parts(place)
        return {**self.idle, source: offset - 1} if self.was_idle(place) else self.idle


def _reaches(last_offsets: Mapping[str, int], place: str) -> bool:
    """Whether the record at a place is one of those up to the last offset of its source."""
    source, offset = place_parts(place)
    return last_offsets.get(source, -1) >= offset


def _extended(last_offsets: Mapping[str, int], place: str) -> dict[str, int]:
    """Return the last offsets with the record at a place."""
    source, offset = place_parts(place)
    return {**last_offsets, source: max(offset, last_offsets.get(source, -1))}


class DecidedHere:
    """What claims this process decided, so that deliveries need not ask the store.

    That a message has its id never changes until it was passed on, whoever owns the id by then;
    so what is remembered stays true.  Asked from any thread: each step is one of the dictionary.
    """

    def __init__(self) -> None:
        self._claimed: OrderedDict[str, tuple[str, int, Definition]] = OrderedDict()
        self._awaited: defaultdict[str, list[LightFuture[None]]] = defaultdict(list)
        self._active_ms: dict[int, float] = {}
        self._reached: dict[tuple[int, str], int] = {}
        """By partition of the claims and of the in-topic: the last offset decided here."""

    def note(self, row: Definition, claim: MessageClaim) -> None:
        """Remember a claim that is durable: which message has the id, and when that is due."""
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
        """Whether this process decides claims of a partition, and has yet to come to a place.

        Claims reach their partition in the order of the in-topic.  Whoever asks the store for
        what is to be decided here keeps it from being decided, where much is behind.
        """
        source, offset = place_parts(place)
        active = now_ms - self._active_ms.get(partition, -ACTIVE_MS) < ACTIVE_MS
        return active and offset > self._reached.get((partition, source), offset)

    async def wait(
        self, message_id: str, timeout_s: float, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        """Wait until something is noted of an id here, on the event loop that notes it.

        Not at all where something was, since this was last asked, or where it ``is_over``; when
        that becomes true, ``release`` has to be called.
        """
        if message_id in self._claimed:
            return
        waiter, waiting = LightFuture[None](), self._awaited[message_id]
        waiting.append(waiter)
        try:
            # Asked only now, so that whoever ends it from here on finds this waiter.
            if not is_over():
                with suppress(TimeoutError):
                    await settled(waiter, timeout_s)
        finally:
            waiting.remove(waiter)
            if not waiting and self._awaited.get(message_id) is waiting:
                self._awaited.pop(message_id, None)

    def release(self, message_id: str) -> None:
        """Let those who wait for an id look whether it is over; from any thread."""
        for waiter in tuple(self._awaited.pop(message_id, ())):
            waiter.set_result(None)

    def take(self, message_id: str, place: str, due_ms: int) -> Definition | None:
        """Return the claim of an id that is known to be this message's, due then; and forget it.

        None where that is not known.
        """
        claimed_place, claimed_ms, row = self._claimed.get(message_id, ("", 0, None))
        if (claimed_place, claimed_ms) != (place, due_ms):
            return None
        self._claimed.pop(message_id, None)
        return row


def passed_on(row: Definition, now_ms: int) -> Definition:
    """Return the claim of a message that was passed on: the same, with an hour to live.

    It loses against whatever is decided of the id after ``row``: see ``offset_of_decision``.
    """
    return Definition(row.name, row.offset + 1, row.rule, row.next_ms, now_ms + CLAIM_KEPT_MS)


def offset_of_decision(record_offset: int, found: Definition | None) -> int:
    """Return the offset of a claim that takes the place of ``found``, and of that one passed on."""
    return record_offset if found is None else max(record_offset, found.offset + 2)


def claim_name(message_id: str) -> DefinitionName:
    """Return the name of the row that says what a relay id stands for."""
    return DefinitionName(DefinitionKind.RELAY, message_id)


def place_of(partition: int, offset: int, topic_id: str = "") -> str:
    """Return the text that tells a record of the in-topic from every other, in their order.

    Offsets of a topic that was deleted and made again begin anew: with ``topic_id`` its records
    are none of the old one's.
    """
    source = f"{topic_id}.{partition:05d}" if topic_id else f"{partition:05d}"
    return f"{source}-{offset:019d}"


def place_parts(place: str) -> tuple[str, int]:
    """Return the source, which is a partition of a topic, and the offset of a place."""
    partition, _, offset = place.partition("-")
    return partition, int(offset)
