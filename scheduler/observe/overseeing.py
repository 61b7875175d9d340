"""What makes a node visible to operators, put together in one place.

Nothing here is needed for a task to run; where the store does not take a report, the node runs
on without.
"""

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

from actors.ports.clock import Clock
from actors.ports.runner import Runner
from actors.ports.store import Stores
from scheduler.configuration.settings import Settings
from scheduler.node.node import Node
from scheduler.observe.composite_telemetry import CompositeTelemetry
from scheduler.observe.figures import Figures
from scheduler.observe.reporting import Reported, Reporter
from scheduler.observe.tallying import Tallies


class Oversight:
    """Figures, counts and reports of one node."""

    def __init__(self, settings: Settings, stores: Stores, clock: Clock) -> None:
        self._settings = settings
        self._stores = stores
        self._clock = clock
        self._figures = Figures(clock)
        self._tallies = Tallies(stores.tallies)
        self.telemetry = CompositeTelemetry(self._figures, self._tallies)
        """What is to be told of events."""
        self.reporter: Reporter | None = None

    def watch(self, node: Node, runner: Runner, lease_ends_ms: Callable[[], float]) -> None:
        """Speak for this node from ``start`` on."""
        self.reporter = Reporter(
            Reported(node.describe, lease_ends_ms, lambda: node.pauses.sheet, hourhand_version()),
            stores=self._stores,
            runner=runner,
            figures=self._figures,
            tallies=self._tallies,
            clock=self._clock,
            interval_ms=self._settings.admin.report_interval_ms,
        )

    def start(self) -> None:
        """Begin to report."""
        if self.reporter is not None:
            self.reporter.start()

    def close(self) -> None:
        """Report no more."""
        if self.reporter is not None:
            self.reporter.close()


def hourhand_version() -> str:
    """Return the version installed; a checkout that is not installed has none."""
    try:
        return installed_version("hourhand")
    except PackageNotFoundError:
        return "not installed"
