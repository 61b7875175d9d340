"""The names by which another process finds the user code of a node; objects are never sent.

Decides nothing.
"""

from collections.abc import Mapping, Sequence

import msgspec


class UserPlaces(msgspec.Struct):
    """All user code of one node, by the names of modules and their members."""

    main_path: str | None = None
    """The program's own file, if user code is in it."""
    main_module: str | None = None
    """The same, if it was started as a module."""
    paths: Sequence[str] = ()
    """The paths from a command; nothing else is needed then."""
    default: str | None = None
    kinds: Mapping[str, str] = {}
    """Path of the factory of executors, by kind."""
    registry: str | None = None
    """In place of ``kinds``."""
    middleware: Sequence[str] = ()
    payloads: str | None = None


class ProcessPlan(msgspec.Struct):
    """The plan that all processes of one node get before they begin."""

    places: UserPlaces
    search_paths: Sequence[str]
    """The folders in which modules are looked for."""
    arguments: Sequence[str]
    """``sys.argv`` of the node."""
    log_level: int
    """Level of the node's root logger."""
    log_levels: Mapping[str, int]
    """Levels of loggers with one of their own."""
    memory_bytes_max: int | None = None
    niceness: int = 0
    """Added to that of the node."""
