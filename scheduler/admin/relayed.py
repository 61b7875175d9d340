"""Messages that wait for their time, as operators see them: of the relay and of ``send_later``.

Decides the fields of a delivery and which task an id stands for. To cancel or move one is a command
for that task, decided by its owner in the order of the log.
"""

from collections.abc import Sequence
from typing import Self

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.display import storable_text
from hourhand.actors.model.values.instant import format_instant
from hourhand.scheduler.admin.answers import (
    Answer,
    Instant,
    KeyText,
    ShownAttempt,
    ShownBytes,
    shown_bytes,
)
from hourhand.scheduler.runtime.answers import answered
from hourhand.scheduler.services.relay.claim_state import MessageClaim, claim_name
from hourhand.scheduler.services.relay.message import SEND, Delivery, Message, parked_name
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.tasks.inspector import Inspector, TaskListing, TaskState, TaskView
from hourhand.scheduler.tasks.task_state import OPEN_STATES

DELIVERIES = f"{RESERVED}{SEND}:"
"""Prefix of the ordering ids of all deliveries."""
LOOKED_MAX = 1_000
"""Rows that one page reads: a user's tasks lie between the deliveries."""
_MOVES_MAX = 20


class ShownMessage(Answer, frozen=True):
    """A message that waits; facts that its task's data does not hold are null."""

    key: KeyText
    due: Instant
    state: TaskState
    topic: str | None
    id: str | None
    parked: bool
    """True if its bytes are stored in a row of their own."""
    size_bytes: int | None
    attempts: list[ShownAttempt] | UnsetType = UNSET
    message_key: ShownBytes | None | UnsetType = UNSET
    message_value: ShownBytes | None | UnsetType = UNSET
    headers: list[tuple[str, ShownBytes | None]] | UnsetType = UNSET

    @classmethod
    def of(cls, view: TaskView) -> Self:
        """Show a message in a list."""
        delivery = _delivery_of(view) or Delivery()
        message = delivery.message
        return cls(
            key=str(view.key),
            due=format_instant(view.key.scheduled_ms),
            state=view.state,
            topic=None if message is None else message.topic,
            id=delivery.id,
            parked=delivery.parked is not None,
            size_bytes=None if message is None else message.size_bytes,
        )


class MessageListing(Answer, frozen=True):
    """Messages that wait, earliest first."""

    messages: list[ShownMessage]
    before: Instant | None
    """Messages that are due from this time on are not listed."""
    next_after: KeyText | None


class MessageAnswer(Answer, frozen=True):
    """One message."""

    message: ShownMessage


class RelayMessages:
    """Reads deliveries; used from any thread."""

    def __init__(self, definitions: DefinitionBook, inspector: Inspector) -> None:
        self._definitions = definitions
        self._inspector = inspector

    def page(self, after: TaskKey | None, limit: int, to_ms: int) -> TaskListing:
        """Return up to ``limit`` deliveries due before ``to_ms``, earliest first."""
        return self._inspector.list_open(
            to_ms=to_ms, limit=limit, looked_max=LOOKED_MAX, begins=DELIVERIES, after=after
        )

    def find(self, message_id: str) -> TaskView | None:
        """Return the delivery of an id; None if none waits."""
        return self.known([message_id]).get(message_id)

    def known(self, ids: Sequence[str]) -> dict[str, TaskView]:
        """Return the waiting deliveries of these ids."""
        # An id that UTF-8 cannot hold does not exist, and a store cannot be asked for it.
        storable = [each for each in dict.fromkeys(ids) if storable_text(each) == each]
        rows = self._definitions.find_all(map(claim_name, storable))
        found: dict[str, TaskView] = {}
        for row in answered(rows):
            view = (
                None
                if row.ended
                else self._delivery(msgspec.json.decode(row.rule, type=MessageClaim))
            )
            if view is not None:
                found[row.name.id] = view
        return found

    def shown(self, view: TaskView, *, data: bool) -> ShownMessage:
        """Show one message with its attempts and, if ``data`` is True, its bytes."""
        attempts = [ShownAttempt.of(each) for each in view.attempts]
        shown = replace(ShownMessage.of(view), attempts=attempts)
        message = self._message(view) if data else None
        if message is None:
            return shown
        return replace(
            shown,
            topic=message.topic,
            message_key=shown_bytes(message.key),
            message_value=shown_bytes(message.value),
            headers=[(name, shown_bytes(each)) for name, each in message.headers],
        )

    def _delivery(self, claim: MessageClaim) -> TaskView | None:
        """Return the open task of a claim; commands may have moved it."""
        if not claim.place:
            return None
        key = TaskKey(claim.times_ms[-1], claim.ordering_id, claim.place)
        for _ in range(_MOVES_MAX):
            view = self._inspector.show(key)
            if view.state in OPEN_STATES:
                return view
            if view.completion is None or view.completion.moved_to_ms is None:
                return None
            key = key._replace(scheduled_ms=view.completion.moved_to_ms)
        return None

    def _message(self, view: TaskView) -> Message | None:
        delivery = _delivery_of(view)
        if delivery is None or delivery.parked is None:
            return None if delivery is None else delivery.message
        row = answered(self._definitions.find(parked_name(delivery.parked)))
        if row is None or row.ended:
            return None
        return msgspec.msgpack.decode(row.rule, type=Message)


def is_delivery(key: TaskKey) -> bool:
    """True if the task passes a message on."""
    return key.ordering_id.startswith(DELIVERIES)


def _delivery_of(view: TaskView) -> Delivery | None:
    try:
        return None if view.task is None else msgspec.json.decode(view.task.data, type=Delivery)
    except msgspec.MsgspecError:
        return None
