"""Everything a tree may touch, handed down from the node to every role."""

from collections.abc import Callable
from dataclasses import dataclass

from actors.model.settings import TreeSettings
from actors.ports.log import LogWriter
from actors.ports.runner import Executable, Runner
from actors.ports.store import Stores
from actors.ports.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Effects:
    """The ports of one node, and the limits its tree works within."""

    settings: TreeSettings
    partition_count: int
    stores: Stores
    writer: LogWriter
    runner: Runner
    telemetry: Telemetry
    make_executor: Callable[[str], Executable]
    """Makes one instance of the executor of an ordering id: the user's, or one of Hourhand's."""
