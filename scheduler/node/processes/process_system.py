"""The calls of the system that processes for user code need, as a protocol."""

from collections.abc import Collection, Sequence
from typing import Protocol

from hourhand.scheduler.node.processes.process_page import ProcessPage


class ProcessSystem(Protocol):
    """The calls of the system that the pool needs, on the pool's thread alone."""

    page: ProcessPage

    def start_process(self, place: int) -> int:
        """Begin to start a process; return its number, which no other one has."""

    def send(self, number: int, seqs: Sequence[int], frames: bytes) -> None:
        """Send work and a ticket for each, without waiting."""

    def take_back(self, number: int) -> Collection[int]:
        """Return the numbers of work that a process had not begun, and never will."""

    def ask(self, number: int) -> None:
        """Signal a process to end its work."""

    def kill(self, number: int) -> None:
        """End a process."""

    def stop(self, number: int) -> None:
        """Ask an idle process to end."""
