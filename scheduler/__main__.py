"""``python -m scheduler``: the same as the ``hourhand`` command."""

from scheduler.cli.entry import main

main()
