"""``manage.py hourhand run``: a node with every task of the project.

Decides which parts start together: the node, and the mover where tasks go through the outbox.  All
else is as in ``hourhand run``.
"""

import sys
from contextlib import ExitStack
from typing import Any

import typer
from django.core.management.base import BaseCommand, CommandError, CommandParser

from hourhand.django import framework
from hourhand.django.backend import HourhandBackend
from hourhand.outbox import OutboxMover
from hourhand.scheduler.cli.failing import reported_errors
from hourhand.scheduler.cli.log_lines import log_to_stderr
from hourhand.scheduler.cli.node_commands import run_node
from hourhand.scheduler.cli.process_running import ChildPlace, process_count, run_processes
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.scheduler import Scheduler


class NodeCommand(BaseCommand):
    """``manage.py hourhand``."""

    help = "Runs the tasks of this project."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options, which are those of ``hourhand run``."""
        commands = parser.add_subparsers(dest="command", required=True)
        run = commands.add_parser("run", help="Run a node until Ctrl-C or SIGTERM.")
        run.add_argument("--backend", default="default", help="Its name in TASKS.")
        run.add_argument("--metrics-port", type=int, help="Port for metrics and health.")
        run.add_argument("--processes", default="1", help="Nodes under this command, or auto.")
        run.add_argument("--log-level", default="info", help="debug, info, warning or error.")
        run.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="One setting of Hourhand, such as group.id=blue; repeatable.",
        )
        run.add_argument("--child", default=None, help="Of the parent of several nodes.")

    def handle(self, **options: Any) -> None:
        """Run the node; the exit codes are those of ``hourhand run``."""
        backend = framework.tasks.task_backends[options["backend"]]
        if not isinstance(backend, HourhandBackend):
            raise CommandError(
                f"TASKS[{options['backend']!r}] is a {type(backend).__name__}: name the alias of a"
                " HourhandBackend with --backend"
            )
        try:
            with reported_errors(debug=bool(options["traceback"])):
                self._run(backend, options)
        except typer.Exit as done:
            sys.exit(done.exit_code)

    def _run(self, backend: HourhandBackend, options: dict[str, Any]) -> None:
        chosen = list(options["set"])
        if options["metrics_port"] is not None:
            chosen.append(f"observe.port={options['metrics_port']}")
        settings = backend.installation.settings(chosen)
        place = None if options["child"] is None else ChildPlace.of(options["child"])
        number = None if place is None else place.number
        log_to_stderr(options["log_level"], settings, process=number)
        count = 1 if place is not None else process_count(options["processes"], settings)
        if count > 1:
            raise typer.Exit(run_processes(settings, count))
        with ExitStack() as running:
            scheduler = Scheduler(settings, executors=backend.installation.executors())
            if backend.installation.on_commit:
                running.enter_context(OutboxMover(_of_the_mover(settings)))
            if place is None:
                run_node(scheduler)
            else:
                place.run(scheduler)


def _of_the_mover(settings: Settings) -> Settings:
    """Return the settings without a port, which is the node's."""
    observe = settings.observe.model_copy(update={"port": None})
    return settings.model_copy(update={"observe": observe})


Command = NodeCommand
"""The name that Django looks for."""
