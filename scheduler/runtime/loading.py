"""Marks a process of a node while it loads user code.

No node may be made by that: a program that starts one at its top level would start nodes without
end.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from hourhand.actors.model.values.errors import InvalidExecutor


class _CodeLoading:
    """The state of this process."""

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
    """Raise InvalidExecutor while user code is being loaded."""
    if _CodeLoading.is_under_way:
        raise InvalidExecutor(
            "a Scheduler is made at the top level of a module that a process loads to run its"
            " tasks: put what starts the node under if __name__ == '__main__':"
        )
