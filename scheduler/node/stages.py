"""The way to a worker: stages, each of which lets an attempt wait and hands it to the next one.

Limits, durable starts, batches, fair turns, workers, in this order.  Says what each of them is to
the others, and decides nothing.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from scheduler.node.attempts import RunningAttempt
from scheduler.ports.batches import Batches

Following = Callable[[Sequence[RunningAttempt]], None]
"""Takes the attempts that a stage hands on: ``enter`` of the next one."""


class RunningBatch(NamedTuple):
    """Some attempts that run together."""

    batches: Batches
    members: Sequence[RunningAttempt]
    ended: Callable[[], None]
    """To be called once all of them have ended, and not before."""


class Workers(Protocol):
    """The last stage, which runs user code; test kit and simulation have one of their own."""

    def run(self, attempts: Sequence[RunningAttempt]) -> None:
        """Run each attempt as soon as a worker is free for it."""

    def run_at_once(self, running: RunningAttempt) -> bool:
        """Run a system task that passes no stage and takes no worker; False where it is none."""

    def run_batch(self, batch: RunningBatch) -> None:
        """Run some attempts together."""

    def pool_of(self, running: RunningAttempt) -> str | None:
        """Name the workers that an attempt waits for with others; None where it does not."""

    def drain(self, partitions: Collection[int] | None) -> None:
        """Let attempts of partitions that go to another owner end in time, where that can be.

        With None the gate is asked once more for what it has let through and has not begun.
        """

    def call_later(self, delay_ms: float, call: Callable[[], object]) -> Callable[[], object]:
        """Call something after a delay; return what calls that off."""

    def tell_later(self, delay_ms: float, call: Callable[[], object]) -> object:
        """Call something that waits only to spare the store."""

    def wake_later(self, delay_ms: float, call: Callable[[], object]) -> object:
        """Have the limits looked at after a delay, unless they are looked at anyway."""
