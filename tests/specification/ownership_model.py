"""Owner epoch, offset commit and watermark of one partition, with writes on their way to the store.

Two records wait in the log; the second one is due before the first.  Two nodes claim the partition
in turn, and an owner that was replaced goes on raising the mark by what it knows.  What is on its
way may land late, in any order, or never.  Nothing here has a time: ``lease_model`` has.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

DUE = (1, 0)
"""When the task of each record is due, by its offset."""
CLOSED = 2
"""A mark behind which everything known is closed."""
CLAIMS_MAX = 2
SAVES_MAX = 2

Breakage = Literal[
    "",
    "commits what was polled",
    "mark passes open tasks",
    "mark is not lowered",
    "saves of any epoch",
    "saves in any order",
]


class Save(NamedTuple):
    """A watermark on its way to the store."""

    epoch: int
    write_time: int
    mark: int


class Owner(NamedTuple):
    """What a node knows of the partition since it claimed it; offsets stand for tasks."""

    epoch: int
    polled: int
    mark: int
    saved: int = 0
    """Write time of its last save."""
    rows: frozenset[int] = frozenset()
    """Known to be in the store."""
    open: frozenset[int] = frozenset()
    waits: tuple[tuple[int, int], ...] = ()
    """Records that are durable once a save of this write time is."""


class OwnershipState(NamedTuple):
    """Everything there is; the last of the owners is the group's member."""

    epoch: int = 0
    mark: int = 0
    write_time: int = 0
    rows: frozenset[int] = frozenset()
    done: frozenset[int] = frozenset()
    committed: int = 0
    saves: frozenset[Save] = frozenset()
    owners: tuple[Owner, ...] = ()


def is_bad(state: OwnershipState) -> bool:
    """True if a task is lost: nobody reads its record again, and nobody would load it (P1, P9)."""
    return any(
        offset not in state.done and (offset not in state.rows or DUE[offset] < state.mark)
        for offset in range(state.committed)
    )


@dataclass(frozen=True, slots=True)
class OwnershipModel:
    """The rules, and one that is left out, if any."""

    breakage: Breakage = ""

    def steps(self, state: OwnershipState) -> Iterator[tuple[str, OwnershipState]]:
        """Yield whatever may happen next."""
        if state.epoch < CLAIMS_MAX:
            yield "a node claims", _claimed(state)
        for save in state.saves:
            yield f"{save} lands", self._landed(state, save)
        for number, owner in enumerate(state.owners):
            for what, after in self._work(state, owner):
                owners = (*state.owners[:number], after[1], *state.owners[number + 1 :])
                yield f"owner {owner.epoch} {what}", after[0]._replace(owners=owners)
        if state.owners:
            yield "the member commits", self._committed(state)

    def _landed(self, state: OwnershipState, save: Save) -> OwnershipState:
        state = state._replace(saves=state.saves - {save})
        of_owner = save.epoch == state.epoch or self.breakage == "saves of any epoch"
        in_order = save.write_time >= state.write_time or self.breakage == "saves in any order"
        if not of_owner or not in_order:
            return state
        return state._replace(mark=save.mark, write_time=save.write_time)

    def _work(
        self, state: OwnershipState, owner: Owner
    ) -> Iterator[tuple[str, tuple[OwnershipState, Owner]]]:
        mark = min((DUE[each] for each in owner.open), default=CLOSED)
        if self.breakage == "mark passes open tasks":
            mark = CLOSED
        if mark > owner.mark and owner.saved < SAVES_MAX:
            yield "raises the mark", _saved(state, owner, mark)
        if owner is not state.owners[-1]:
            return
        if owner.polled < len(DUE):
            yield "polls a record", self._polled(state, owner)
        for offset in range(len(DUE)):
            if offset < owner.polled and offset in owner.open - owner.rows:
                known = owner._replace(rows=owner.rows | {offset})
                yield "stores a row", (state._replace(rows=state.rows | {offset}), known)
        for offset in owner.open & owner.rows:
            closed = owner._replace(open=owner.open - {offset})
            yield "completes a task", (state._replace(done=state.done | {offset}), closed)

    def _polled(self, state: OwnershipState, owner: Owner) -> tuple[OwnershipState, Owner]:
        offset = owner.polled
        owner = owner._replace(polled=offset + 1, open=owner.open | {offset})
        if DUE[offset] >= owner.mark or self.breakage == "mark is not lowered":
            return state, owner
        state, owner = _saved(state, owner, DUE[offset])
        return state, owner._replace(waits=(*owner.waits, (offset, owner.saved)))

    def _committed(self, state: OwnershipState) -> OwnershipState:
        owner = state.owners[-1]
        if self.breakage == "commits what was polled":
            return state._replace(committed=max(state.committed, owner.polled))
        # A save is known to be durable where the row says so: nobody else saves under this epoch.
        waiting = {
            offset for offset, saved in owner.waits if state.write_time < _time(owner, saved)
        }
        open_ends = [each for each in owner.open if each not in owner.rows or each in waiting]
        return state._replace(committed=max(state.committed, min([owner.polled, *open_ends])))


def _claimed(state: OwnershipState) -> OwnershipState:
    """The epoch is raised where the row is as it was read, and what is open is loaded."""
    found = frozenset(
        each for each in state.rows if each not in state.done and DUE[each] >= state.mark
    )
    owner = Owner(state.epoch + 1, state.committed, state.mark, rows=found, open=found)
    return state._replace(epoch=state.epoch + 1, owners=(*state.owners, owner))


def _saved(state: OwnershipState, owner: Owner, mark: int) -> tuple[OwnershipState, Owner]:
    owner = owner._replace(mark=mark, saved=owner.saved + 1)
    save = Save(owner.epoch, _time(owner, owner.saved), mark)
    return state._replace(saves=state.saves | {save}), owner


def _time(owner: Owner, saved: int) -> int:
    return owner.epoch * 10 + saved
