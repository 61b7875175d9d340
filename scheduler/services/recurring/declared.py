"""The schedules that an owner declares as a whole: an application in its code, or a file.

Decides which declaration of an owner is in force, and the changes that make the schedules follow
it. Declarations of one owner are tasks of one ordering id, so they are decided one after the other.
Each set that takes the place of another gets the next revision, and a schedule follows no change of
a revision below its own: changes may be repeated, and come late. It never changes a schedule of
another owner, or one that was set by hand under a name that is no longer declared.

Two versions of an application may run side by side. A set that was replaced takes effect again only
once nobody has declared the newer one for ``LEASE_MS``: a node of the old version that starts again
changes nothing, and after a rollback the old set comes back by itself.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence

import msgspec

from hourhand.actors.kernel.futures import gather
from hourhand.actors.model.execution.outcome import Drop, Outcome
from hourhand.actors.model.task.definition import Definition, DefinitionKind, DefinitionName
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.model.values.instant import format_instant, from_millis
from hourhand.scheduler.node.system_executor import SystemExecutor
from hourhand.scheduler.runtime.awaiting import settled
from hourhand.scheduler.services.recurring.rule import (
    RecurringRule,
    checked_name,
    read_rule,
)
from hourhand.scheduler.services.recurring.state import (
    Change,
    ChangeRequest,
    Recurring,
    change_task,
    name_of,
    recurring_of,
    rule_values,
    written_rule,
)
from hourhand.scheduler.services.system.system_tasks import SystemDependencies, unique_in_order

logger = logging.getLogger("hourhand.recurring")

RENEW_MS = 300_000
"""Time after which a node that runs declares the set in force again."""
LEASE_MS = 3 * RENEW_MS
"""Time for which a set stays in force against one that it replaced, after it was last declared."""
APPLICATIONS = "app:"
"""Prefix of owners whose nodes renew what they declare."""
_SUPERSEDED_MAX = 100
_LISTED_MAX = 5
_OWNERS = DefinitionName(DefinitionKind.DECLARED, "").ordering_id


class Declaration(msgspec.Struct, frozen=True, omit_defaults=True):
    """The data of a task that declares all schedules of an owner."""

    digest: str
    """The same for two sets only if they mean the same."""
    rules: dict[str, dict[str, object]] | None = None
    """Rule by name; None only renews the declaration that is in force."""
    forced: bool = False
    """True if it takes effect whatever was declared before, as an operator asks."""


class Declared(msgspec.Struct, frozen=True, omit_defaults=True):
    """The row of an owner: the set that is in force."""

    digest: str
    revision: int
    names: tuple[str, ...]
    renewed_ms: int
    """Time of its last declaration."""
    made_by: str
    """The task that made this row; a repetition of it sees it here."""
    removed: tuple[str, ...] = ()
    """Names of the set before that are not in this one."""
    superseded: tuple[str, ...] = ()
    """Digests of the sets before, the newest last."""

    def is_held_against(self, digest: str, now_ms: int) -> bool:
        """True if a set that this one replaced may not take effect yet."""
        return digest in self.superseded and now_ms < self.renewed_ms + LEASE_MS


def name_of_owner(owner: str) -> DefinitionName:
    """Return the name of an owner's row."""
    return DefinitionName(DefinitionKind.DECLARED, owner)


def declared_of(row: Definition | None) -> Declared | None:
    """Read an owner's row; None without one."""
    return None if row is None else msgspec.json.decode(row.rule, type=Declared)


def declaration_of(
    plain: Mapping[str, RecurringRule], sealed: Mapping[str, RecurringRule], *, forced: bool
) -> Declaration:
    """Return the declaration of a set of rules, whose data may be sealed.

    Each sealing gives another text, so plain data and the names of the keys make the digest.
    """
    digest = hashlib.sha256()
    for name in sorted(plain):
        envelope = sealed[name].envelope
        steps = None if envelope is None else envelope.steps
        digest.update(msgspec.json.encode([name, written_rule(plain[name]).decode(), steps]))
    rules = {name: rule_values(rule) for name, rule in sealed.items()}
    return Declaration(digest.hexdigest(), rules, forced)


def declaration_task(owner: str, declaration: Declaration, now_ms: int) -> Task:
    """Return the task that declares an owner's schedules; InvalidTask for a bad name of one."""
    for name in declaration.rules or ():
        checked_name(name)
    return Task.model_construct(
        ordering_id=name_of_owner(checked_name(owner)).ordering_id,
        scheduled_time=from_millis(now_ms),
        uniqueness_key=unique_in_order(now_ms),
        data=msgspec.to_builtins(declaration),
    )


def is_orphan(known: Recurring, declared: Declared | None, now_ms: int) -> bool:
    """True if a schedule has an owner that does not declare it any more.

    ``declared`` is the row of that owner.
    """
    owner = known.state.owner
    if owner is None:
        return False
    if declared is None or known.name not in declared.names:
        return True
    return owner.startswith(APPLICATIONS) and now_ms >= declared.renewed_ms + LEASE_MS


class DecideDeclared(SystemExecutor):
    """Decides one declaration, and asks for the changes that follow from it."""

    def __init__(self, dependencies: SystemDependencies) -> None:
        self._dependencies = dependencies

    async def execute(self, task: Task) -> Outcome | None:
        """Put the declared set in force, unless a newer one is; renew it if it is."""
        owner = task.ordering_id.removeprefix(_OWNERS)
        try:
            asked = msgspec.convert(task.data, Declaration)
            for name, values in (asked.rules or {}).items():
                checked_name(name)
                read_rule(**values)
        except (msgspec.ValidationError, InvalidTask, TypeError) as error:
            return Drop(f"its data is not a declaration of recurring schedules: {error}")
        found = await settled(self._dependencies.definitions.find(name_of_owner(owner)))
        before, mark = declared_of(found), f"{task.key.scheduled_ms}:{task.uniqueness_key}"
        now_in_force, is_new = before, True
        if before is None or before.made_by != mark:
            if (refusal := _refusal(before, asked, task.key.scheduled_ms)) is not None:
                return Drop(refusal)
            now_in_force = _following(before, asked, task.key.scheduled_ms, mark)
            row = Definition(
                name_of_owner(owner), self.offset_over(found), msgspec.json.encode(now_in_force)
            )
            await settled(self._dependencies.definitions.save(row))
            is_new = before is None or before.revision < now_in_force.revision
        if asked.rules is not None:
            assert now_in_force is not None, "it was there, or was made just now"
            wanted = await self._missing(owner, now_in_force, asked.rules, is_new=is_new)
            await self._send(task, owner, now_in_force, wanted)
        return None

    async def _missing(
        self,
        owner: str,
        declared: Declared,
        rules: Mapping[str, dict[str, object]],
        *,
        is_new: bool,
    ) -> list[tuple[str, ChangeRequest]]:
        """Return the changes that are missing; a schedule that is in place is left alone."""
        names = [*rules, *declared.removed]
        rows = await settled(self._dependencies.definitions.find_all(map(name_of, names)))
        known = {each.name.id: recurring_of(each) for each in rows if not each.ended}
        foreign = sorted(name for name in rules if _is_foreign(known.get(name), owner))
        if foreign:
            logger.warning(
                "%s declares recurring schedules that belong to another owner, which stay as they"
                " are: %s; give them other names, or remove them there",
                owner,
                ", ".join(foreign[:_LISTED_MAX]),
            )
        wanted: list[tuple[str, ChangeRequest]] = []
        for name, values in rules.items():
            if name not in foreign and not _is_in_place(known.get(name), owner, declared):
                change = ChangeRequest(Change.SET, values, owner, declared.revision)
                wanted.append((name, change))
        for name in declared.removed:
            there = known.get(name)
            # One that the set before has just asked for may not be there yet.
            is_left = is_new if there is None else _is_left(there, owner)
            if is_left:
                change = ChangeRequest(Change.DELETE, None, owner, declared.revision)
                wanted.append((name, change))
        return wanted

    async def _send(
        self,
        task: Task,
        owner: str,
        declared: Declared,
        wanted: Sequence[tuple[str, ChangeRequest]],
    ) -> None:
        self._dependencies.check_lease()
        # At one time they are sorted by revision, and a repetition of this task asks for the same.
        unique = f"declared:{owner}:{declared.revision:020d}:{task.uniqueness_key}"
        append, asked_ms = self._dependencies.appender.append, declared.renewed_ms
        sent = [append(change_task(name, asked_ms, unique, each)) for name, each in wanted]
        await settled(gather(sent))


def _refusal(before: Declared | None, asked: Declaration, asked_ms: int) -> str | None:
    """Return why a declaration does not take effect; None if it does."""
    if asked.rules is None:
        if before is None or before.digest != asked.digest:
            return "another set of recurring schedules is in force"
        return None
    if before is None or asked.forced or not before.is_held_against(asked.digest, asked_ms):
        return None
    until = format_instant(before.renewed_ms + LEASE_MS)
    return f"a newer set of recurring schedules is in force, until {until} if nobody renews it"


def _following(before: Declared | None, asked: Declaration, asked_ms: int, mark: str) -> Declared:
    """Return the row after a declaration that takes effect."""
    if before is not None and before.digest == asked.digest:
        renewed_ms = max(before.renewed_ms, asked_ms)
        return msgspec.structs.replace(before, renewed_ms=renewed_ms, made_by=mark)
    names = tuple(sorted(asked.rules or ()))
    if before is None:
        return Declared(asked.digest, 1, names, asked_ms, mark)
    superseded = [each for each in before.superseded if each != asked.digest]
    return Declared(
        asked.digest,
        before.revision + 1,
        names,
        # The changes of a later revision are due no earlier, whichever clocks their nodes have.
        max(asked_ms, before.renewed_ms),
        mark,
        tuple(sorted(set(before.names) - set(names))),
        (*superseded, before.digest)[-_SUPERSEDED_MAX:],
    )


def _is_foreign(known: Recurring | None, owner: str) -> bool:
    """True if a schedule is there and belongs to somebody else."""
    return known is not None and not known.state.over and known.state.owner not in (None, owner)


def _is_left(known: Recurring, owner: str) -> bool:
    """True if a schedule that was removed from the set still runs for its owner."""
    return not known.state.over and known.state.owner == owner


def _is_in_place(known: Recurring | None, owner: str, declared: Declared) -> bool:
    """True if a schedule follows the set in force; one that has ended is declared again."""
    return (
        known is not None
        and not known.state.over
        and (known.state.owner, known.state.revision) == (owner, declared.revision)
    )
