"""The ``hourhand`` command, and ``python -m hourhand``: the command line, and nothing else."""

from hourhand.scheduler.cli.entry import main

if __name__ == "__main__":
    main()
