"""Shows what users import under the module that they import it from.

A traceback, a pickle, ``help`` and ``repr`` name ``hourhand.Task``, wherever the class stands in
the folders below; so a pickle outlives a move between them.  Decides nothing else: which names are
public is said by ``__all__`` of ``hourhand`` and its public modules.
"""

from collections.abc import Callable
from typing import TypeVar

Public = TypeVar("Public")


def public(module: str) -> Callable[[Public], Public]:
    """Decorate a class or function that users import from ``module``."""

    def shown(member: Public) -> Public:
        member.__module__ = module
        return member

    return shown
