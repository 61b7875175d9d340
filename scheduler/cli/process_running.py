"""``hourhand run --processes``: how many nodes, with which command line, and what a child does.

Decides that children are fresh interpreters with the command line of this one, and that storage
which only one node can hold is refused before anything is started.
"""

import gc
import sys
import threading
from dataclasses import dataclass
from typing import Annotated

import typer

from actors.model.errors import InvalidInput, SettingsInvalid
from scheduler import wiring
from scheduler.cli.failing import say
from scheduler.cli.supervising import Supervisor
from scheduler.configuration.cpu_limit import allowed_cores
from scheduler.configuration.memory_limit import budget_bytes
from scheduler.configuration.settings import Settings
from scheduler.process.interrupts import signals_taken_by
from scheduler.process.lifeline import Lifeline
from scheduler.scheduler import Scheduler

PROCESSES_MAX = 256
AUTO = "auto"

ProcessesOption = Annotated[
    str,
    typer.Option(
        metavar="N", help="So many nodes, each a process; auto: one for each core. Needs servers."
    ),
]
ChildOption = Annotated[str | None, typer.Option(hidden=True)]


@dataclass(frozen=True)
class ChildPlace:
    """Which of several processes this one is, and the descriptor of its lifeline."""

    number: int
    descriptor: int

    @staticmethod
    def of(text: str) -> "ChildPlace":
        """Return the place that a supervisor has given, as ``number:descriptor``."""
        number, _, descriptor = text.partition(":")
        if not (number.isdecimal() and descriptor.isdecimal()):
            raise InvalidInput("--child is given by `hourhand run --processes`, and by nobody else")
        return ChildPlace(int(number), int(descriptor))

    def run(self, scheduler: Scheduler) -> None:
        """Run a node until its supervisor ends the lifeline, or is gone.

        Every signal asks for the same graceful stop: a service manager may signal all processes,
        and only the supervisor knows which signal is a second one.
        """
        lifeline = Lifeline(self.descriptor)
        gc.freeze()
        with signals_taken_by(lambda _number, _frame: scheduler.stop()):
            scheduler.start()
            lifeline.tell_up(scheduler.observation.port)
            lifeline.watch(scheduler.stop)
            # In the main thread the scheduler would take the signals itself.
            waiting = threading.Thread(target=scheduler.wait, name="hourhand-waiting")
            waiting.start()
            waiting.join()


def process_count(text: str, settings: Settings) -> int:
    """Return how many processes are asked for; InvalidInput, SettingsInvalid."""
    one_folder = "embedded" in (settings.log, settings.store)
    if text == AUTO:
        return 1 if one_folder else min(allowed_cores(), PROCESSES_MAX)
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= PROCESSES_MAX):
        raise InvalidInput(f"--processes {text!r}: expected 1 to {PROCESSES_MAX}, or auto")
    if int(text) > 1 and one_folder:
        folder = str(settings.embedded.folder)
        raise SettingsInvalid(
            f"--processes {text}: only one node can hold the folder {folder!r}"
            " (embedded.folder). Set log=kafka and store=cassandra, or leave --processes out"
        )
    return int(text)


def run_processes(settings: Settings, count: int) -> int:
    """Run so many nodes until they are stopped; return the exit code."""
    chosen = _settings_of_children(settings, count)

    def command(number: int, descriptor: int) -> list[str]:
        # Not by fork: a child would have the locks and the libraries' threads of this process.
        return [sys.executable, *sys.orig_argv[1:], *chosen, "--child", f"{number}:{descriptor}"]

    supervisor = Supervisor(command, count, clock=wiring.open_clock())
    served = wiring.serve_processes(settings, supervisor.children)
    try:
        if served is not None:
            say(f"metrics and health of all processes on port {served[0]}")
        say(f"{count} processes start; Ctrl-C waits for running attempts and stops them")
        code = supervisor.run()
    finally:
        if served is not None:
            served[1]()
    if not code:
        say("all processes have stopped")
    return code


def _settings_of_children(settings: Settings, count: int) -> list[str]:
    """Return options that give each child its part of the memory, and a port of its own."""
    chosen: list[str] = []
    if settings.tree.window.memory_bytes_max is None:
        chosen += ["--set", f"tree.window.memory_bytes_max={budget_bytes(count)}"]
    if settings.observe.port is not None:
        # The supervisor asks each of them; nobody else has to.
        chosen += ["--set", "observe.host=127.0.0.1", "--metrics-port", "0"]
    return chosen
