"""Checkers of what was asked for: tasks that were lost or never asked for, and commands."""

from collections.abc import Iterator, Sequence

from tests.judge.history import Command, Offer
from tests.judge.view import Finding, View, told, told_offer

TAKEN = frozenset({"accepted", "committed"})
_MOVES = frozenset({"reschedule", "run_now"})
_TAKES_EFFECT = frozenset({"applied", "running"})
_UNREPORTED = frozenset({"", "unknown_key"})

Owed = tuple[str, int]
"""A task that must end well, and its time by the wall clock."""


def unsettled(view: View) -> set[Owed]:
    """Return every task that must end well, by what was acknowledged, and has not."""
    found = set()
    for offer in view.offers.values():
        due_us, _ = _commanded(offer, view.commands.get(offer.task_id, ()))
        if offer.answer in TAKEN and due_us is not None:
            found.add((offer.task_id, due_us))
    return found - {(each.task_id, each.due_wall_us) for each in view.attempts if each.succeeded}


def lost(view: View) -> Iterator[Finding]:
    """P1: what was acknowledged has not run, though no command closed it."""
    for task_id, _ in sorted(unsettled(view)):
        yield Finding(told_offer(view.offers[task_id]), _put_off(view, task_id))


def _put_off(view: View, task_id: str) -> str | None:
    """Name a clock that was ahead as an attempt asked for the next one."""
    for each in view.by_task[task_id] if view.offers[task_id].work == "retry" else ():
        clock = view.causes.clock_of(each)
        if clock is not None and clock.ahead_us > 0:
            return f"to be tried again by a wrong clock: {clock.kind}"
    return None


def revived(view: View) -> Iterator[Finding]:
    """P6: what an acknowledged command had closed began in a process of later."""
    for task_id, commands in view.commands.items():
        _, closed = _commanded(view.offers[task_id], commands)
        for due_us, command in closed:
            told_us = command.told_us or 0
            for each in view.by_task.get(task_id, ()):
                begun_us = view.history.begun_us.get(each.pid, 0)
                if each.due_wall_us == due_us and begun_us > told_us:
                    yield Finding(f"{told(each)} after a {command.word} told at {told_us}")


def unreported(view: View) -> Iterator[Finding]:
    """P12: an acknowledged command has no outcome, or one that does not know the task."""
    for command in view.history.commands:
        if command.told_us is not None and command.outcome in _UNREPORTED:
            yield Finding(f"{command.word} of {command.task_id}: {command.outcome or 'no outcome'}")


def uninvited(view: View) -> Iterator[Finding]:
    """P25: an attempt is of a task that nobody offered, that was refused or rolled back, or of
    another time.
    """
    for each in view.attempts:
        offer = view.offers.get(each.task_id)
        if offer is None:
            yield Finding(f"{told(each)}: never offered")
        elif offer.answer == "refused":
            yield Finding(f"{told(each)}: the client refused it")
        elif offer.answer == "withdrawn":
            yield Finding(f"{told(each)}: its transaction was rolled back")
        elif not _is_as_offered(view, offer, each.ordering_id, each.due_wall_us):
            yield Finding(f"{told(each)}: offered for another time or ordering id")


def _is_as_offered(view: View, offer: Offer, ordering_id: str, due_us: int) -> bool:
    commands = view.commands.get(offer.task_id, ())
    if ordering_id != offer.ordering_id:
        return False
    # Nobody knows the new time that a command without an outcome may have given.
    return due_us in {offer.due_wall_us, *(each.to_wall_us for each in commands)} or any(
        not each.outcome for each in commands
    )


def _commanded(
    offer: Offer, commands: Sequence[Command]
) -> tuple[int | None, list[tuple[int, Command]]]:
    """Return the time at which a task must run after its commands, if it must, and the times at
    which it may no longer, each with the command that closed it.
    """
    due_us, closed = offer.due_wall_us, list[tuple[int, Command]]()
    for each in commands:
        if each.outcome in _UNREPORTED:
            return None, closed
        if each.outcome in _TAKES_EFFECT:
            # A task that is to run in the very moment it is due in, stays where it is.
            if each.to_wall_us != due_us:
                closed.append((due_us, each))
            if each.outcome == "running" or each.word not in _MOVES:
                return None, closed
            due_us = each.to_wall_us
    return due_us, closed
