"""What limits the attempts of one node, and what it needs to know of the partitions it holds.

Values only: ``limiter`` decides what waits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from actors.model.flow import FlowRules


class HeldPartitions(Protocol):
    """What is known of the partitions that a node holds."""

    gained_ms: float
    """Monotonic time at which the last one came."""

    @property
    def held(self) -> int:
        """How many they are now."""

    @property
    def since_ms(self) -> Sequence[float]:
        """The monotonic time since which it holds each of them."""

    @property
    def alone_until_ms(self) -> float:
        """The monotonic time before which no other node can hold one of them."""

    def watch(self, changed: Callable[[], object]) -> None:
        """Call this whenever they are others."""


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """What limits one node's attempts."""

    rules: FlowRules = FlowRules.NONE
    on_node: Mapping[str | None, int] = field(default_factory=dict)
    """How many attempts of a kind run at once here, whatever others do."""
    partitions: int = 1
    """How many the topic has."""
    held: HeldPartitions | None = None
    """Those of them that the node holds; None for all, from the beginning."""
    lend: bool = False
    """Whether nodes lend each other rates, which all of them must know."""


NO_LIMITS = NodeLimits()
