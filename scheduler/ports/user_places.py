"""Where the user code of a node is found by another process: names, never objects.

Decides nothing.
"""

from collections.abc import Mapping, Sequence

import msgspec


class UserPlaces(msgspec.Struct):
    """All that one node runs of a user's, by the names of modules and what is in them."""

    main_path: str | None = None
    """The program's own file, where something is in it."""
    main_module: str | None = None
    """The same, where it was started as a module."""
    paths: Sequence[str] = ()
    """As a command was given them; nothing else is needed then."""
    default: str | None = None
    kinds: Mapping[str, str] = {}
    """Of each kind what makes its executors."""
    registry: str | None = None
    """In place of ``kinds``."""
    middleware: Sequence[str] = ()
    payloads: str | None = None


class ProcessPlan(msgspec.Struct):
    """What all processes of one node are told before they begin."""

    places: UserPlaces
    search_paths: Sequence[str]
    """Where modules are looked for."""
    arguments: Sequence[str]
    """``sys.argv`` of the node."""
    log_level: int
    """Of the node's root logger."""
    log_levels: Mapping[str, int]
    """Of loggers that have one of their own."""
    memory_bytes_max: int | None = None
