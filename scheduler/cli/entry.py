"""The first and the last code of every command.

Decides the order alone: signal handlers are installed before anything heavy is loaded, and stay
until the process ends.
"""

import sys

from hourhand.scheduler.runtime.interrupts import EXIT_INTERRUPTED, raised_within, take_interrupts


def main() -> None:
    """Run the command line; the entry point of the distribution."""
    take_interrupts()
    from hourhand.scheduler.cli.cli import app

    try:
        with raised_within():
            app()
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
