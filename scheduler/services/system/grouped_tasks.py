"""Groups of tasks with one follower, which is scheduled once all of them have ended.

A request and the reports of its members make the row of a group, whichever comes first.  They are
tasks of the group's ordering id, so they come one after the other, and the number of a member
counts once.  Decides when the follower is sent, and what it is told; never how a single task brings
its follower (``links``), nor which tasks can be a group (``tasks.grouping``).

The follower is in the log before the row says so, and has the key that was given, so a report that
is run again after a crash sends the same task.  Once the request has come, the row has no expiry
before each member has reported an end, however late.
"""

import msgspec

from hourhand.actors.model.execution.interruption import current_attempt
from hourhand.actors.model.execution.outcome import Drop, Outcome
from hourhand.actors.model.task.codec import refuse_follower
from hourhand.actors.model.task.definition import Definition, DefinitionName
from hourhand.actors.model.task.links import EndRecord, On, Then, follower_record, ordering_id_of
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import TaskTooLarge
from hourhand.scheduler.node.system_executor import SystemExecutor
from hourhand.scheduler.runtime.awaiting import settled
from hourhand.scheduler.services.system.requested_tasks import ROW_KEPT_MS, name_of_request
from hourhand.scheduler.services.system.system_tasks import SystemDependencies
from hourhand.scheduler.tasks.grouping import MEMBERS_MAX, GroupReport, GroupRequest

ENDS_BYTES_MAX = 256_000
"""Bytes of ends above which a row takes no further results and reasons."""


class GroupState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The row of a group."""

    members: int = 0
    """Their number; 0 before the request has come."""
    follower: str = ""
    on: On = "success"
    ends: dict[int, EndRecord] = {}
    """The end of each member that has reported one, by its number."""
    is_sent: bool = False
    """True once the follower is in the log."""

    @property
    def is_over(self) -> bool:
        """True once each member has ended."""
        return 0 < self.members == len(self.ends)

    @property
    def brings(self) -> bool:
        """True once the members have ended as the follower was asked for."""
        return self.is_over and (self.on == "any" or all(map(_is_success, self.ends.values())))

    @property
    def may_expire(self) -> bool:
        """True if no member has an end to report, or nobody has asked for the group yet."""
        return self.is_over or not self.members

    def asked(self, request: GroupRequest) -> "GroupState":
        """Return the group as its request makes it; a second request changes nothing."""
        if self.members:
            return self
        known = {member: end for member, end in self.ends.items() if member < request.members}
        return GroupState(request.members, request.follower, request.on, known)

    def counts(self, member: int, end: EndRecord) -> bool:
        """True for the first end of a member, and for a success after another end."""
        if self.is_sent or not 0 <= member < (self.members or MEMBERS_MAX):
            return False
        known = self.ends.get(member)
        return known is None or (_is_success(end) and not _is_success(known))

    def with_end(self, member: int, end: EndRecord) -> "GroupState":
        """Return the group with one end more, which has no result and reason above the bound."""
        ends = {**self.ends, member: end}
        if len(msgspec.json.encode(ends)) > ENDS_BYTES_MAX:
            ends[member] = _bare(end)
        return msgspec.structs.replace(self, ends=ends)

    def records(self) -> tuple[bytes, bytes]:
        """Return the follower's record with all that is known of the ends, and without results."""
        ends = [self.ends[member] for member in sorted(self.ends)]
        follower = Then(msgspec.Raw(self.follower.encode()))
        return follower_record(follower, *ends), follower_record(follower, *map(_bare, ends))


class CountGroup(SystemExecutor):
    """Makes a group, or counts the end of a member."""

    def __init__(self, dependencies: SystemDependencies) -> None:
        self._dependencies = dependencies

    async def execute(self, task: Task) -> Outcome | None:
        """Record what is new; send the follower at the last end."""
        try:
            asked = msgspec.convert(task.data, GroupRequest | GroupReport)
            if isinstance(asked, GroupRequest):
                refuse_follower(asked.follower.encode())
        except (msgspec.ValidationError, ValueError) as error:
            return Drop(f"its data is not of a group: {error}")
        name = name_of_request(task.ordering_id)
        found = await settled(self._dependencies.definitions.find(name))
        known = (
            GroupState()
            if found is None or found.ended
            else msgspec.json.decode(found.rule, type=GroupState)
        )
        if isinstance(asked, GroupRequest):
            state = known.asked(asked)
        else:
            ended = _reported()
            if ended is None:
                return Drop("it reports no end")
            state = known
            if known.counts(asked.member, ended):
                state = known.with_end(asked.member, ended)
        if state == known:
            return None
        if state.brings and not state.is_sent:
            await self._send(state)
            state = msgspec.structs.replace(state, is_sent=True)
        await self._save(name, found, state)
        return None

    async def _send(self, state: GroupState) -> None:
        """Have the log hold the follower; TaskTooLarge where it is too large without results."""
        record, bare = state.records()
        try:
            await self._append(record)
        except TaskTooLarge:
            await self._append(bare)

    async def _append(self, record: bytes) -> None:
        await settled(self._dependencies.appender.append_record(ordering_id_of(record), record))

    async def _save(
        self, name: DefinitionName, found: Definition | None, state: GroupState
    ) -> None:
        now_ms = self._dependencies.clock.now_ms()
        row = Definition(
            name,
            self.offset_over(found),
            msgspec.json.encode(state),
            expires_ms=now_ms + ROW_KEPT_MS if state.may_expire else None,
        )
        await settled(self._dependencies.definitions.save(row))


def _reported() -> EndRecord | None:
    """Return the end that the report which runs now has."""
    attempt = current_attempt()
    assert attempt is not None, "only a task that runs reports"
    links = attempt.task.links
    return None if links is None or len(links.after) != 1 else links.after[0]


def _is_success(end: EndRecord) -> bool:
    return end.state == CompletionResult.SUCCESS.value


def _bare(end: EndRecord) -> EndRecord:
    return EndRecord(end.key, end.state, end.finished, end.attempts)
