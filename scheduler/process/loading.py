"""Whether this process is one of a node's that loads user code now.

Decides that no node may be made by that: a program that starts one at its top level would start
nodes without end.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from actors.model.errors import InvalidExecutor


class _CodeLoading:
    """What this process does."""

    is_under_way = False


@contextmanager
def user_code() -> Iterator[None]:
    """Refuse nodes while inside."""
    _CodeLoading.is_under_way = True
    try:
        yield
    finally:
        _CodeLoading.is_under_way = False


def refuse_node() -> None:
    """Raise InvalidExecutor where user code is being loaded."""
    if _CodeLoading.is_under_way:
        raise InvalidExecutor(
            "a Scheduler is made at the top level of a module that a process loads to run its"
            " tasks: put what starts the node under if __name__ == '__main__':"
        )
