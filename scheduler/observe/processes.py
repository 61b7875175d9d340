"""What is known of the child processes of one command, each of which is a node.

Values only: the supervisor fills them in, and its metrics and health page read them.
"""

from typing import NamedTuple


class ChildState(NamedTuple):
    """One child process, as its supervisor sees it now."""

    number: int
    """Counts from 1, and stays with the child that is started in its place."""
    is_up: bool
    """Whether it has said that its node works."""
    port: int | None
    """Where it serves its own metrics and health, on loopback; None where it does not yet."""
    restarts: int
    detail: str
    """Words for a person: what it is doing, or why it is not there."""
