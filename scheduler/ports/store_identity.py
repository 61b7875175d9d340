"""Identifies the store of a group's members, which must all use the same one.

With two stores behind one group each gets a part of the partitions, and tasks in one wait where the
other never looks. Decides whether another store is refused; it never asks for one.
"""

from typing import NamedTuple

from hourhand.actors.model.values.errors import GroupShared


class StoreIdentity(NamedTuple):
    """A store, for the readers of its log."""

    id: str = ""
    """Its unique id; empty if unknown, which is never refused."""
    name: str = ""
    """An operator's name for it."""


def require_one_store(own: StoreIdentity, noted: StoreIdentity, group_id: str, topic: str) -> None:
    """Raise GroupShared if a group's offset was committed for another store."""
    if not own.id or not noted.id or own.id == noted.id:
        return
    raise GroupShared(
        f"group {group_id!r} reads topic {topic!r} for another store ({noted.name}), and this one"
        f" is {own.name}: of tasks that one has stored the other would run none. Give each store a"
        " topic and a group of its own, or all nodes of the group the same store. Where this store"
        " took the place of that one: stop all nodes and remove the group's offsets, as"
        " docs/operations/backup.md says, then start them"
    )
