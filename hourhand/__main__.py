"""The ``hourhand`` command, and ``python -m hourhand``.

Decides the message if a user's own module hides the command line; everything else is the command
line's.
"""

import sys

from hourhand.shadowing import require_own_packages

EXIT_HIDDEN = 3
"""The installation is not usable; every command uses this exit code for that."""


def main() -> None:
    """Run the command line; the entry point of the distribution."""
    try:
        require_own_packages()
    except ImportError as error:
        sys.stderr.write(f"hourhand: {error}\n")
        sys.exit(EXIT_HIDDEN)
    from scheduler.cli.entry import main as run_command

    run_command()


if __name__ == "__main__":
    main()
