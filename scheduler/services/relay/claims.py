"""Decides which message holds a relay id: the first one that comes while none of that id waits.

Claims travel in batches, one task for many. All batches of a partition have one ordering id, so
they are decided one after the other, in the order of the log, with one read and one write for a
whole batch. The delivery of a message is a task of its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple, assert_never

import msgspec

from hourhand.actors.kernel.futures import gather
from hourhand.actors.model.execution.outcome import Drop, Outcome
from hourhand.actors.model.task.definition import Definition
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion
from hourhand.actors.model.task.task import Task
from hourhand.actors.ports.store import StatusStore
from hourhand.scheduler.node.system_executor import SystemExecutor
from hourhand.scheduler.runtime.awaiting import settled
from hourhand.scheduler.services.relay.claim_state import (
    CLAIM_KEPT_MS,
    DecidedHere,
    MessageClaim,
    claim_name,
    offset_of_decision,
    place_parts,
)
from hourhand.scheduler.services.relay.delivery import MOVED_ON
from hourhand.scheduler.services.relay.gathering import ClaimBatch, ClaimRequest
from hourhand.scheduler.services.relay.headers import RelayAction
from hourhand.scheduler.services.system.system_tasks import SystemDependencies
from hourhand.scheduler.tasks.appending import TaskAppender

_TIMES_MAX = 20
"""Due times that a claim remembers: a message that was moved more often was certainly not passed on
at the first one."""


class _DeliveryState(NamedTuple):
    """The stored state of a claimed message's delivery."""

    key: TaskKey
    """Its current key."""
    closed: Completion | None = None
    """None while it waits. A completion that is not done means that an operator cancelled it."""

    def waited_at(self, now_ms: int) -> bool:
        """True if at a time the message was neither passed on nor cancelled."""
        if self.closed is None:
            return True
        return self.closed.result.is_done and now_ms < self.closed.finished_ms


class DecideClaims(SystemExecutor):
    """Decides a batch of claims, cancels and reschedules of relay ids."""

    unslotted = True
    """Deliveries wait for it, so it needs no worker slot."""

    def __init__(
        self,
        dependencies: SystemDependencies,
        status: StatusStore,
        decided: DecidedHere,
        waiting_kept_ms: int,
    ) -> None:
        """``waiting_kept_ms`` is the retention of completions. A waiting claim is kept for the same
        time after its due time: only completions can tell that its message was passed on.
        """
        self._dependencies = dependencies
        self._waiting_kept_ms = max(waiting_kept_ms, CLAIM_KEPT_MS)
        self._status = status
        self._decided = decided

    async def execute(self, task: Task) -> Outcome | None:
        """Read the ids' claims, then carry out the records in order.

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
        decisions = _Decisions(claims, await self._states(claims), dependencies.appender)
        for request in requests:
            decisions.decide(request)
        # Commands are sent before the claims are saved: after a crash in between, the old claims
        # are still there and the commands are sent again.
        await settled(gather(decisions.commands))
        for row in await self._save(rows, decisions):
            self._decided.note(row, claims[row.name.id])
        places = (request.place for request in requests)
        self._decided.note_decided(partition, places, dependencies.clock.monotonic_ms())
        return None

    async def _rows(self, ids: set[str]) -> dict[str, Definition]:
        found = await settled(self._dependencies.definitions.find_all(map(claim_name, ids)))
        return {row.name.id: row for row in found}

    async def _states(self, claims: Mapping[str, MessageClaim]) -> dict[str, _DeliveryState]:
        """Return the states of the claimed messages, in one read."""
        waiting = {each: claim for each, claim in claims.items() if claim.place}
        asked = [key for claim in waiting.values() for key in claim.keys]
        known = set(asked)
        found: dict[TaskKey, Completion] = {}
        while asked:
            found |= await self._completions(asked)
            # A command moved it: an operator's, or one sent just before a crash.
            moved = dict.fromkeys(_state(claim, found).key for claim in waiting.values())
            asked = [key for key in moved if key not in known]
            known.update(asked)
        return {each: _state(claim, found) for each, claim in waiting.items()}

    async def _completions(self, keys: Iterable[TaskKey]) -> dict[TaskKey, Completion]:
        by_partition: defaultdict[int, list[TaskKey]] = defaultdict(list)
        for key in keys:
            by_partition[self._dependencies.appender.partition_of(key.ordering_id)].append(key)
        read = self._status.find_completions
        answers = await settled(gather([read(each, of) for each, of in by_partition.items()]))
        return {key: completion for answer in answers for key, completion in answer.items()}

    async def _save(
        self, rows: Mapping[str, Definition], decisions: "_Decisions"
    ) -> list[Definition]:
        """Save the decisions; return the rows, which are durable."""
        now_ms = self._dependencies.clock.now_ms()
        changed = []
        for message_id, latest_ms in decisions.latest_ms.items():
            claim, row = decisions.claims[message_id], rows.get(message_id)
            kept_ms = self._waiting_kept_ms if decisions.waits(message_id) else CLAIM_KEPT_MS
            expires_ms = max(latest_ms, now_ms) + kept_ms
            if row is not None and claim.place:
                expires_ms = max(expires_ms, row.expires_ms or 0)
            rule, offset = msgspec.json.encode(claim), offset_of_decision(self.record_offset, row)
            name = claim_name(message_id)
            changed.append(Definition(name, offset, rule, claim.times_ms[-1], expires_ms))
        await settled(self._dependencies.definitions.save_all(changed))
        return changed


class _Decisions:
    """The decisions of a batch; pure, except for the commands that it appends."""

    def __init__(
        self,
        claims: dict[str, MessageClaim],
        states: dict[str, _DeliveryState],
        appender: TaskAppender,
    ) -> None:
        self.claims = claims
        self.commands: list[Future[Any]] = []
        self.latest_ms: dict[str, int] = {}
        """By changed id: the latest due time that was decided."""
        self._states = states
        self._appender = appender

    def waits(self, message_id: str) -> bool:
        """True if the message of an id was neither passed on nor cancelled."""
        state = self._states.get(message_id) if self.claims[message_id].place else None
        return state is not None and state.closed is None

    def decide(self, request: ClaimRequest) -> None:
        """Decide one record, unless it was decided before."""
        claim = self.claims.get(request.id) or _no_claim(request)
        if claim.has_decided(request.place):
            return
        state = self._states[request.id] if claim.place else None
        if request.action is RelayAction.SCHEDULE:
            self._claim(claim, state, request)
        elif state is None or state.closed is not None:
            self._note_idle(claim, request)
        elif claim.was_idle(request.place):
            return
        elif request.action is RelayAction.CANCEL:
            self._cancel(claim, state.key, request)
        elif request.action is RelayAction.RESCHEDULE:
            self._reschedule(claim, state.key, request)
        else:
            assert_never(request.action)

    def _claim(
        self, claim: MessageClaim, state: _DeliveryState | None, request: ClaimRequest
    ) -> None:
        if state is not None and state.waited_at(request.asked_ms):
            # Its delivery would notice the cancel by itself; the command removes it from lists.
            self.commands.append(self._appender.cancel(request.delivery_key))
        else:
            claim = MessageClaim(
                request.place,
                request.delivery_ordering_id,
                (request.due_ms,),
                claim.decided,
                claim.idle_before(request.place),
            )
            self._states[request.id] = _DeliveryState(request.delivery_key)
        self._note(request.id, claim.deciding(request.place), request.due_ms)

    def _cancel(self, claim: MessageClaim, key: TaskKey, request: ClaimRequest) -> None:
        self.commands.append(self._appender.cancel(key))
        claim = msgspec.structs.replace(claim, place="")
        self._note(request.id, claim.deciding(request.place), key.scheduled_ms)

    def _reschedule(self, claim: MessageClaim, key: TaskKey, request: ClaimRequest) -> None:
        due_ms = request.due_ms
        if key.scheduled_ms != due_ms:
            # A key at an earlier time of the message may be closed for good.
            while due_ms in claim.times_ms[:-1]:
                due_ms += 1
            self.commands.append(self._appender.reschedule(key, due_ms))
            self._states[request.id] = _DeliveryState(key._replace(scheduled_ms=due_ms))
        if claim.times_ms[-1] != due_ms:
            times_ms = (*claim.times_ms, due_ms)[-_TIMES_MAX:]
            claim = msgspec.structs.replace(claim, times_ms=times_ms)
        self._note(request.id, claim.deciding(request.place), request.due_ms)

    def _note_idle(self, claim: MessageClaim, request: ClaimRequest) -> None:
        """Remember that a cancel or move found no message."""
        if not claim.was_idle(request.place):
            latest_ms = max(request.asked_ms, request.due_ms)
            self._note(request.id, claim.idling(request.place), latest_ms)

    def _note(self, message_id: str, claim: MessageClaim, latest_ms: int) -> None:
        self.claims[message_id] = claim
        self.latest_ms[message_id] = max(latest_ms, self.latest_ms.get(message_id, 0))


def _no_claim(request: ClaimRequest) -> MessageClaim:
    return MessageClaim("", "", (request.asked_ms,), {})


def _state(claim: MessageClaim, found: Mapping[TaskKey, Completion]) -> _DeliveryState:
    for key in claim.keys:
        closed = found.get(key)
        if closed is not None and closed.result.is_done and closed.reason != MOVED_ON:
            return _DeliveryState(key, closed)
    key = claim.keys[-1]
    seen = {key}
    while (closed := found.get(key)) is not None and closed.moved_to_ms is not None:
        key = key._replace(scheduled_ms=closed.moved_to_ms)
        if key in seen:
            # Moves led back to an earlier time, where it waits again.
            return _DeliveryState(key)
        seen.add(key)
    return _DeliveryState(key, closed)
