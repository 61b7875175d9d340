"""Which message a relay id stands for: the first one that comes while none of that id waits.

A claim is a task of the id's own ordering id, so claims of one id are decided one after the
other, in the order of the log.  It only ever decides and tells; the delivery of the message is a
task of its own.
"""

from typing import assert_never

import msgspec

from actors.model.definition import Definition, DefinitionKind, DefinitionName
from actors.model.instant import from_millis
from actors.model.key import TaskKey
from actors.model.outcome import Drop, Outcome
from actors.model.task import Task
from actors.ports.store import StatusStore
from scheduler.awaiting import settled
from scheduler.own_tasks import OwnExecutor, Surroundings
from scheduler.relay.delivery import CLAIM_KEPT_MS, Claim, DecidedHere, place_parts
from scheduler.relay.headers import Action

_TIMES_MAX = 20
"""Times a claim remembers: what was moved more often was certainly not passed on at the first."""


class ClaimRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The data of a task that claims an id, or changes what it stands for."""

    action: Action
    place: str
    delivery_ordering_id: str
    due_ms: int
    """0 for a cancel."""

    @property
    def delivery_key(self) -> TaskKey:
        """The key of the delivery that is claimed for."""
        return TaskKey(self.due_ms, self.delivery_ordering_id, self.place)


def claim_task(asked_ms: int, message_id: str, request: ClaimRequest) -> Task:
    """Return the task that decides a claim."""
    return Task.model_construct(
        ordering_id=DefinitionName(DefinitionKind.RELAY, message_id).ordering_id,
        scheduled_time=from_millis(asked_ms),
        uniqueness_key=request.place,
        data=msgspec.to_builtins(request),
    )


class DecideClaim(OwnExecutor):
    """Decides one claim, cancel or reschedule of a relay id."""

    def __init__(
        self, surroundings: Surroundings, status: StatusStore, decided: DecidedHere
    ) -> None:
        self._surroundings = surroundings
        self._status = status
        self._decided = decided

    async def execute(self, task: Task) -> Outcome | None:
        """Read what the id stands for now, then do what is asked."""
        try:
            request = msgspec.convert(task.data, ClaimRequest)
            place_parts(request.place)
        except (msgspec.ValidationError, ValueError) as error:
            return Drop(f"its data is no claim: {error}")
        _, _, message_id = task.ordering_id.split(":", 2)
        name = DefinitionName(DefinitionKind.RELAY, message_id)
        row = await settled(self._surroundings.definitions.find(name))
        claim = None
        if row is not None and not row.ended:
            claim = msgspec.json.decode(row.rule, type=Claim)
        if claim is not None and claim.has_decided(request.place):
            # Decided by this very record, before a crash kept the task from ending.
            return None
        self._name, self._row = name, row
        match request.action:
            case Action.SCHEDULE:
                return await self._claim(claim, request, task.key.scheduled_ms)
            case Action.CANCEL:
                return await self._cancel(claim, request)
            case Action.RESCHEDULE:
                return await self._reschedule(claim, request, task.key.scheduled_ms)
            case _:
                assert_never(request.action)

    async def _claim(
        self, claim: Claim | None, request: ClaimRequest, asked_ms: int
    ) -> Outcome | None:
        if claim is not None and await self._waits(claim, asked_ms):
            await self._save(claim.deciding(request.place), request.due_ms)
            # Its delivery would find that out by itself; so it is off the list of what waits.
            await settled(self._surroundings.appender.cancel(request.delivery_key))
            return Drop("another message of this id waits")
        decided = {} if claim is None else claim.decided
        fresh = Claim(request.place, request.delivery_ordering_id, (request.due_ms,), decided)
        await self._save(fresh.deciding(request.place), request.due_ms)
        return None

    async def _cancel(self, claim: Claim | None, request: ClaimRequest) -> Outcome | None:
        if claim is None or not claim.place:
            return Drop("no message of this id waits")
        # The command first: a crash after it finds the claim still there, and sends it again.
        last = _keys(claim)[-1]
        await settled(self._surroundings.appender.cancel(last))
        gone = msgspec.structs.replace(claim, place="")
        await self._save(gone.deciding(request.place), last.scheduled_ms)
        return None

    async def _reschedule(
        self, claim: Claim | None, request: ClaimRequest, asked_ms: int
    ) -> Outcome | None:
        if claim is None or not await self._waits(claim, asked_ms):
            return Drop("no message of this id waits")
        last = _keys(claim)[-1]
        moved = claim
        if last.scheduled_ms != request.due_ms:
            command = self._surroundings.appender.reschedule(last, request.due_ms)
            await settled(command)
            times_ms = (*claim.times_ms, request.due_ms)[-_TIMES_MAX:]
            moved = msgspec.structs.replace(claim, times_ms=times_ms)
        await self._save(moved.deciding(request.place), request.due_ms)
        return None

    async def _waits(self, claim: Claim, asked_ms: int) -> bool:
        """Whether the claimed message was not passed on yet when a record came."""
        if not claim.place:
            return False
        keys = _keys(claim)
        partition = self._surroundings.appender.partition_of(claim.ordering_id)
        found = await settled(self._status.find_completions(partition, keys))
        for completion in found.values():
            if completion.result.is_done:
                return asked_ms < completion.finished_ms
        # Closed at its last time and yet not done: an operator cancelled it.
        last = keys[-1]
        return last not in found or claim.times_ms.index(last.scheduled_ms) < len(keys) - 1

    async def _save(self, claim: Claim, due_ms: int) -> None:
        """Keep a claim for longer than whatever it decides may wait."""
        expires_ms = max(due_ms, self._surroundings.clock.now_ms()) + CLAIM_KEPT_MS
        if self._row is not None:
            expires_ms = max(expires_ms, self._row.expires_ms or 0)
        rule = msgspec.json.encode(claim)
        offset = self.offset_over(self._row)
        row = Definition(self._name, offset, rule, claim.times_ms[-1], expires_ms)
        await settled(self._surroundings.definitions.save(row))
        self._decided.note(self._name.id, claim)


def _keys(claim: Claim) -> list[TaskKey]:
    return [TaskKey(due_ms, claim.ordering_id, claim.place) for due_ms in claim.times_ms]
