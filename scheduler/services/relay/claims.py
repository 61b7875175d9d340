"""Which message a relay id stands for: the first one that comes while none of that id waits.

Claims travel in batches, one task for many.  All batches of a partition have one ordering id, so
they are decided one after the other, in the order of the log, with one read and one write for
all of a batch.  It only ever decides and tells; the delivery of a message is a task of its own.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from itertools import count
from typing import Any, NamedTuple, assert_never

import msgspec

from actors.kernel.futures import gather
from actors.model.definition import RESERVED, Definition, DefinitionKind, DefinitionName
from actors.model.key import TaskKey
from actors.model.outcome import Drop, Outcome
from actors.model.partition import partition_of
from actors.model.status import Completion
from actors.model.task import Task
from actors.ports.store import StatusStore
from scheduler.futures.awaiting import settled
from scheduler.node.system_executor import SystemExecutor
from scheduler.records.appending import TaskAppender
from scheduler.services.relay.delivery import MOVED_ON
from scheduler.services.relay.headers import RelayAction
from scheduler.services.relay.standing import CLAIM_KEPT_MS, DecidedHere, MessageClaim, place_parts
from scheduler.services.system_tasks import SystemDependencies

CLAIMS = "claims"
"""The kind of ordering ids that batches of claims have."""

_TIMES_MAX = 20
"""Times a claim remembers: what was moved more often was certainly not passed on at the first."""


class ClaimRequest(msgspec.Struct, frozen=True, array_like=True):
    """A record of the in-topic that claims an id, or changes what it stands for."""

    action: RelayAction
    id: str
    place: str
    delivery_ordering_id: str
    due_ms: int
    """0 for a cancel."""
    asked_ms: int
    """When the record came."""

    @property
    def delivery_key(self) -> TaskKey:
        """The key of the delivery that is claimed for."""
        return TaskKey(self.due_ms, self.delivery_ordering_id, self.place)


class ClaimBatch(msgspec.Struct, frozen=True):
    """The data of a task that decides claims, in the order in which they came."""

    claims: Sequence[ClaimRequest]


def claim_name(message_id: str) -> DefinitionName:
    """Return the name of the row that says what a relay id stands for."""
    return DefinitionName(DefinitionKind.RELAY, message_id)


def claim_ordering_ids(partition_count: int) -> Mapping[int, str]:
    """Return for each partition the ordering id of its batches, the same on every node."""
    found: dict[int, str] = {}
    for number in count():
        ordering_id = f"{RESERVED}{CLAIMS}:{number}"
        found.setdefault(partition_of(ordering_id, partition_count), ordering_id)
        if len(found) == partition_count:
            break
    return found


class _DeliveryState(NamedTuple):
    """What became of a claimed message, as the store has it."""

    key: TaskKey
    """Of its delivery, wherever that was moved to."""
    passed_on_ms: int | None = None
    """When it was passed on; None while it was not."""
    gone: bool = False
    """Closed and yet not passed on: an operator cancelled it."""


class DecideClaims(SystemExecutor):
    """Decides a batch of claims, cancels and reschedules of relay ids."""

    unslotted = True
    """Deliveries wait for it."""

    def __init__(
        self, dependencies: SystemDependencies, status: StatusStore, decided: DecidedHere
    ) -> None:
        self._dependencies = dependencies
        self._status = status
        self._decided = decided

    async def execute(self, task: Task) -> Outcome | None:
        """Read what the ids stand for now, then do what is asked, in order.

        A record that was decided before, by another batch or before a crash, changes nothing.
        """
        try:
            requests = msgspec.convert(task.data, ClaimBatch).claims
            for request in requests:
                place_parts(request.place)
        except (msgspec.ValidationError, ValueError) as error:
            return Drop(f"its data is not a batch of claims: {error}")
        dependencies = self._dependencies
        partition = dependencies.appender.partition_of(task.ordering_id)
        self._decided.note_decided(partition, (), dependencies.clock.monotonic_ms())
        rows = await self._rows({request.id for request in requests})
        claims = {
            message_id: msgspec.json.decode(row.rule, type=MessageClaim)
            for message_id, row in rows.items()
            if not row.ended
        }
        decisions = _Decisions(claims, await self._fates(claims), self._dependencies.appender)
        for request in requests:
            decisions.decide(request)
        # The commands first: a crash after them finds the claims still there, and sends them again.
        await settled(gather(decisions.commands))
        await self._save(rows, decisions)
        for message_id in decisions.expires_ms:
            self._decided.note(message_id, claims[message_id])
        places = (request.place for request in requests)
        self._decided.note_decided(partition, places, dependencies.clock.monotonic_ms())
        return None

    async def _rows(self, ids: set[str]) -> dict[str, Definition]:
        found = await settled(self._dependencies.definitions.find_all(map(claim_name, ids)))
        return {row.name.id: row for row in found}

    async def _fates(self, claims: Mapping[str, MessageClaim]) -> Mapping[str, _DeliveryState]:
        """Return what became of the messages that claims stand for, read together."""
        waiting = {each: claim for each, claim in claims.items() if claim.place}
        asked: defaultdict[int, list[TaskKey]] = defaultdict(list)
        known: set[TaskKey] = set()
        for claim in waiting.values():
            partition = self._dependencies.appender.partition_of(claim.ordering_id)
            asked[partition] += _keys(claim)
            known.update(_keys(claim))
        read = self._status.find_completions
        found: dict[TaskKey, Completion] = {}
        while asked:
            reads = [read(each, keys) for each, keys in asked.items()]
            asked.clear()
            for answer in await settled(gather(reads)):
                found.update(answer)
            for claim in waiting.values():
                key = _fate(claim, found).key
                if key not in found and key not in known:
                    # Moved by a command: an operator's, or one sent just before a crash.
                    known.add(key)
                    asked[self._dependencies.appender.partition_of(key.ordering_id)].append(key)
        return {each: _fate(claim, found) for each, claim in waiting.items()}

    async def _save(self, rows: Mapping[str, Definition], decisions: "_Decisions") -> None:
        """Keep claims for longer than whatever they decide may wait."""
        now_ms = self._dependencies.clock.now_ms()
        changed = []
        for message_id, due_ms in decisions.expires_ms.items():
            claim, row = decisions.claims[message_id], rows.get(message_id)
            expires_ms = max(due_ms, now_ms) + CLAIM_KEPT_MS
            if row is not None:
                expires_ms = max(expires_ms, row.expires_ms or 0)
            rule, offset = msgspec.json.encode(claim), self.offset_over(row)
            name = claim_name(message_id)
            changed.append(Definition(name, offset, rule, claim.times_ms[-1], expires_ms))
        await settled(self._dependencies.definitions.save_all(changed))


class _Decisions:
    """What a batch makes of claims: pure but for the commands, which it has appended."""

    def __init__(
        self,
        claims: dict[str, MessageClaim],
        fates: Mapping[str, _DeliveryState],
        appender: TaskAppender,
    ) -> None:
        self.claims = claims
        self.commands: list[Future[Any]] = []
        self.expires_ms: dict[str, int] = {}
        """By changed id: the latest time that was decided about."""
        self._fates = dict(fates)
        self._appender = appender

    def decide(self, request: ClaimRequest) -> None:
        """Decide one record, unless it was decided before."""
        claim = self.claims.get(request.id)
        if claim is not None and claim.has_decided(request.place):
            return
        match request.action:
            case RelayAction.SCHEDULE:
                self._claim(claim, request)
            case RelayAction.CANCEL:
                self._cancel(claim, request)
            case RelayAction.RESCHEDULE:
                self._reschedule(claim, request)
            case _:
                assert_never(request.action)

    def _claim(self, claim: MessageClaim | None, request: ClaimRequest) -> None:
        if claim is not None and self._waits(claim, request):
            # Its delivery would find that out by itself; so it is off the list of what waits.
            self.commands.append(self._appender.cancel(request.delivery_key))
            self._note(claim, request, request.due_ms)
            return
        before = claim or _no_claim(request)
        fresh = MessageClaim(
            request.place,
            request.delivery_ordering_id,
            (request.due_ms,),
            before.decided,
            before.idle_before(request.place),
        )
        self._fates[request.id] = _DeliveryState(request.delivery_key)
        self._note(fresh, request, request.due_ms)

    def _cancel(self, claim: MessageClaim | None, request: ClaimRequest) -> None:
        if claim is None or not self._can_change(claim, request):
            self._idle(claim, request)
            return
        if claim.was_idle(request.place):
            return
        key = self._fates[request.id].key
        self.commands.append(self._appender.cancel(key))
        self._note(msgspec.structs.replace(claim, place=""), request, key.scheduled_ms)

    def _reschedule(self, claim: MessageClaim | None, request: ClaimRequest) -> None:
        if claim is None or not self._can_change(claim, request):
            self._idle(claim, request)
            return
        if claim.was_idle(request.place):
            return
        key, due_ms = self._fates[request.id].key, request.due_ms
        if key.scheduled_ms != due_ms:
            # A time that it was at before may be closed for good.
            while due_ms in claim.times_ms[:-1]:
                due_ms += 1
            self.commands.append(self._appender.reschedule(key, due_ms))
            self._fates[request.id] = _DeliveryState(key._replace(scheduled_ms=due_ms))
        if claim.times_ms[-1] != due_ms:
            times_ms = (*claim.times_ms, due_ms)[-_TIMES_MAX:]
            claim = msgspec.structs.replace(claim, times_ms=times_ms)
        self._note(claim, request, request.due_ms)

    def _waits(self, claim: MessageClaim, request: ClaimRequest) -> bool:
        """Whether the claimed message was not passed on yet when a record came."""
        if not claim.place:
            return False
        fate = self._fates[request.id]
        if fate.passed_on_ms is not None:
            return request.asked_ms < fate.passed_on_ms
        return not fate.gone

    def _can_change(self, claim: MessageClaim, request: ClaimRequest) -> bool:
        """Whether there is still something to cancel or move: not what was passed on."""
        return self._waits(claim, request) and self._fates[request.id].passed_on_ms is None

    def _idle(self, claim: MessageClaim | None, request: ClaimRequest) -> None:
        """Remember that there was nothing to cancel or move."""
        claim = claim or _no_claim(request)
        if not claim.was_idle(request.place):
            self.claims[request.id] = claim.idling(request.place)
            due_ms = max(request.asked_ms, request.due_ms)
            self.expires_ms[request.id] = max(due_ms, self.expires_ms.get(request.id, 0))

    def _note(self, claim: MessageClaim, request: ClaimRequest, due_ms: int) -> None:
        self.claims[request.id] = claim.deciding(request.place)
        self.expires_ms[request.id] = max(due_ms, self.expires_ms.get(request.id, 0))


def _no_claim(request: ClaimRequest) -> MessageClaim:
    return MessageClaim("", "", (request.asked_ms,), {})


def _fate(claim: MessageClaim, found: Mapping[TaskKey, Completion]) -> _DeliveryState:
    keys = _keys(claim)
    for key in keys:
        completion = found.get(key)
        done = completion is not None and completion.result.is_done
        if completion is not None and done and completion.reason != MOVED_ON:
            return _DeliveryState(key, passed_on_ms=completion.finished_ms)
    key, seen = keys[-1], {keys[-1]}
    while (closed := found.get(key)) is not None and closed.moved_to_ms is not None:
        key = key._replace(scheduled_ms=closed.moved_to_ms)
        if key in seen:
            # Moved in a circle, and so to where it waits again.
            return _DeliveryState(key)
        seen.add(key)
    if closed is not None and closed.result.is_done:
        return _DeliveryState(key, passed_on_ms=closed.finished_ms)
    return _DeliveryState(key, gone=closed is not None)


def _keys(claim: MessageClaim) -> list[TaskKey]:
    return [TaskKey(due_ms, claim.ordering_id, claim.place) for due_ms in claim.times_ms]
