"""Which store the members of a group work for: all of one group for the same.

Two stores behind one group get a part of the partitions each, and what one has stored waits where
the other never looks.  Decides what of another store is refused; it never asks for it.
"""

from typing import NamedTuple

from actors.model.errors import GroupShared


class StoreIdentity(NamedTuple):
    """A store, for those who read a log for it."""

    id: str = ""
    """Tells it from every other one; empty where nobody knows, which is never refused."""
    name: str = ""
    """What an operator knows it by."""


def require_one_store(own: StoreIdentity, noted: StoreIdentity, group_id: str, topic: str) -> None:
    """Raise GroupShared where a group's offset was committed for another store."""
    if not own.id or not noted.id or own.id == noted.id:
        return
    raise GroupShared(
        f"group {group_id!r} reads topic {topic!r} for another store ({noted.name}), and this one"
        f" is {own.name}: of tasks that one has stored the other would run none. Give each store a"
        " topic and a group of its own, or all nodes of the group the same store. Where this store"
        " took the place of that one: stop all nodes and remove the group's offsets, as"
        " docs/operations/backup.md says, then start them"
    )
