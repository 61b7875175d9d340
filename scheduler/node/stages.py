"""The way to a worker: each stage may let an attempt wait, then hands it to the next stage.

The stages are limits, durable starts, batches, fair turns and workers, in this order.  Declares
their interfaces, and decides nothing.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.ports.batches import Batches

Following = Callable[[Sequence[RunningAttempt]], None]
"""``enter`` of the next stage, which takes the attempts that a stage hands on."""


class RunningBatch(NamedTuple):
    """A batch: some attempts that run together."""

    batches: Batches
    members: Sequence[RunningAttempt]
    ended: Callable[[], None]
    """Must be called once all of them have ended, and not before."""


class Workers(Protocol):
    """The last stage, which runs user code; test kit and simulation have stages of their own."""

    def run(self, attempts: Sequence[RunningAttempt]) -> None:
        """Run each attempt as soon as a worker is free for it."""

    def run_at_once(self, running: RunningAttempt) -> bool:
        """Run a system task that passes no stage and takes no worker; False for any other."""

    def run_batch(self, batch: RunningBatch) -> None:
        """Run some attempts together."""

    def pool_of(self, running: RunningAttempt) -> str | None:
        """Return the name of the pool that an attempt waits for; None if it waits for no pool."""

    def ahead(self, pool: str) -> int:
        """Return how many attempts more than run in a pool at once begin there without a wait."""

    def drain(self, partitions: Collection[int] | None) -> None:
        """End attempts of partitions that go to another owner in time, as far as that is possible.

        With None, ask the gate once more about attempts that it let through and that have not
        begun.
        """

    def call_later(self, delay_ms: float, call: Callable[[], object]) -> Callable[[], object]:
        """Call a function after a delay; return a function that cancels the call."""

    def tell_later(self, delay_ms: float, call: Callable[[], object]) -> object:
        """Call a function after a delay that only spares the store."""

    def wake_later(self, delay_ms: float, call: Callable[[], object]) -> object:
        """Call the look at the limits after a delay, unless a look comes anyway."""
