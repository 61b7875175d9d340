"""The state of one command's child processes, each of which is a node.

Values only: the supervisor fills them in, and its metrics and health page read them.
"""

from typing import NamedTuple


class ChildState(NamedTuple):
    """One child process, as its supervisor sees it now."""

    number: int
    """Counts from 1, and stays with the child that replaces this one."""
    is_up: bool
    """True if it has reported that its node works."""
    port: int | None
    """Port of its own metrics and health, on loopback; None before it serves them."""
    restarts: int
    detail: str
    """Words for a person: its activity, or the reason why it is missing."""
