"""``python -m scheduler``: the same as the ``hourhand`` command."""

from scheduler.doors.cli import main

main()
