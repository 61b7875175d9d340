"""The limits of one node's attempts, and the partitions that decide its share of them.

Values only: ``limiter`` decides what waits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hourhand.actors.model.flow.flow import FlowRules


class OwnedPartitions(Protocol):
    """The partitions that a node owns."""

    gained_ms: float
    """Monotonic time at which the last new partition came."""

    @property
    def count(self) -> int:
        """The number of partitions now."""

    @property
    def since_ms(self) -> Sequence[float]:
        """For each of them, the monotonic time since which the node owns it."""

    @property
    def alone_until_ms(self) -> float:
        """The monotonic time before which no other node can own one of them."""

    def watch(self, changed: Callable[[], object]) -> None:
        """Call a function after each change of the partitions."""


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """The limits of one node's attempts."""

    rules: FlowRules = FlowRules.NONE
    on_node: Mapping[str | None, int] = field(default_factory=dict)
    """Most attempts of a kind that run at once on this node."""
    partitions: int = 1
    """Number of the topic's partitions."""
    owned: OwnedPartitions | None = None
    """The partitions that the node owns; None for all, from the beginning."""
    lend: bool = False
    """True if nodes lend each other rates, on which all nodes must agree."""


NO_LIMITS = NodeLimits()
