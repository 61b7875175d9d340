"""Groups of tasks with one follower, which is scheduled once all of them have ended.

A request makes the row of a group, before any of its members is in the log.  Each member's own
follower reports its end to the group: it is a task of the group's ordering id, so reports are
counted one after the other, by the number of the member.  Decides when the follower is sent, and
what it is told; never how a single task brings its follower (``links``).

The follower is in the log before the row says so, and has the key that was given, so a report that
is run again after a crash sends the same task.  The row has no expiry before each member has
reported an end, however late.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from hourhand.actors.model.codec import encode_task
from hourhand.actors.model.definition import Definition, DefinitionKind, DefinitionName
from hourhand.actors.model.errors import InvalidTask, TaskTooLarge
from hourhand.actors.model.instant import format_instant, from_millis
from hourhand.actors.model.interruption import current_attempt
from hourhand.actors.model.key import TaskKey
from hourhand.actors.model.links import (
    EndRecord,
    On,
    Then,
    checked_on,
    follower_record,
    ordering_id_of,
)
from hourhand.actors.model.outcome import Drop, Outcome
from hourhand.actors.model.status import CompletionResult
from hourhand.actors.model.task import Task
from hourhand.scheduler.futures.awaiting import settled
from hourhand.scheduler.node.system_executor import SystemExecutor
from hourhand.scheduler.records.admission import followed
from hourhand.scheduler.services.requested_tasks import ROW_KEPT_MS, name_of_request
from hourhand.scheduler.services.system_tasks import SystemDependencies

MEMBERS_MAX = 500
"""Most members of a group: its row is written once for each."""
ENDS_BYTES_MAX = 256_000
"""Bytes of ends above which a row takes no further results and reasons."""
_ID_BYTES = 16
_EARLIEST = format_instant(0)


class GroupRequest(msgspec.Struct, frozen=True, tag_field="group", tag="made"):
    """The data of the task that makes a group."""

    members: int
    follower: str
    """The follower's whole record, as JSON."""
    on: On


class GroupReport(msgspec.Struct, frozen=True, tag_field="group", tag="ended"):
    """The data of the task that reports the end of a member."""

    member: int


class GroupState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The row of a group."""

    members: int
    follower: str
    on: On
    ends: dict[int, EndRecord] = {}
    """The end of each member that has reported one, by its number."""
    is_sent: bool = False
    """True once the follower is in the log."""

    @property
    def is_over(self) -> bool:
        """True once each member has ended."""
        return len(self.ends) == self.members

    @property
    def brings(self) -> bool:
        """True once the members have ended as the follower was asked for."""
        return self.is_over and (self.on == "any" or all(map(_is_success, self.ends.values())))

    def counts(self, member: int, end: EndRecord) -> bool:
        """True for the first end of a member, and for a success after another end."""
        if self.is_sent or not 0 <= member < self.members:
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


def group_of(
    members: Sequence[tuple[TaskKey, bytes]], follower: tuple[TaskKey, bytes], on: On, now_ms: int
) -> tuple[Task, list[bytes]]:
    """Return the request of a group and the records of its members, given keys and records;
    InvalidTask for tasks that cannot be a group.
    """
    keys = [key for key, _ in members]
    if not keys:
        raise InvalidTask("a group has one task at least, got none")
    if len(set(keys)) < len(keys):
        twice = next(key for at, key in enumerate(keys) if key in keys[:at])
        raise InvalidTask(f"a task is a member of a group once, got {twice} twice")
    request = GroupRequest(len(keys), follower[1].decode(), _checked(on))
    text = msgspec.json.encode([[str(each) for each in (*keys, follower[0])], on])
    digest = hashlib.blake2b(text, digest_size=_ID_BYTES).hexdigest()
    ordering_id = DefinitionName(DefinitionKind.GROUP, digest).ordering_id

    def own(unique: str, data: GroupRequest | GroupReport) -> Task:
        return Task.model_construct(
            ordering_id=ordering_id,
            scheduled_time=from_millis(now_ms),
            uniqueness_key=unique,
            data=msgspec.to_builtins(data),
        )

    records: list[bytes] = []
    for number, (key, record) in enumerate(members):
        if key == follower[0]:
            raise InvalidTask(f"a task cannot follow itself: {key} is a member of its group")
        report = own(f"member-{number:03d}", GroupReport(number))
        records.append(followed(key, record, report.key, encode_task(report), "any"))
    # It sorts before the reports.
    return own("group", request), records


def bare_follower(keys: Sequence[TaskKey], follower: bytes) -> bytes:
    """Return the record of a follower that is told no more than how each member ended."""
    longest = max(CompletionResult, key=len).value
    ends = (EndRecord(str(key), longest, _EARLIEST, attempts=10**9) for key in keys)
    return follower_record(Then(msgspec.Raw(follower)), *ends)


class CountGroup(SystemExecutor):
    """Makes a group, or counts the end of a member."""

    def __init__(self, dependencies: SystemDependencies) -> None:
        self._dependencies = dependencies

    async def execute(self, task: Task) -> Outcome | None:
        """Record what is new; send the follower at the last end."""
        try:
            asked = msgspec.convert(task.data, GroupRequest | GroupReport)
        except msgspec.ValidationError as error:
            return Drop(f"its data is not of a group: {error}")
        name = name_of_request(task.ordering_id)
        found = await settled(self._dependencies.definitions.find(name))
        state = None if found is None else msgspec.json.decode(found.rule, type=GroupState)
        if isinstance(asked, GroupRequest):
            if state is None:
                state = GroupState(asked.members, asked.follower, asked.on)
                await self._save(name, found, state)
            return None
        ended = _reported()
        if state is None or ended is None:
            return Drop("its group is over, or was never made")
        if not state.counts(asked.member, ended):
            return None
        state = state.with_end(asked.member, ended)
        if state.brings:
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
            expires_ms=now_ms + ROW_KEPT_MS if state.is_over else None,
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


def _checked(on: Any) -> On:
    try:
        return checked_on(on)
    except ValueError as error:
        raise InvalidTask(str(error)) from None
