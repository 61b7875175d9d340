"""``python -m scheduler``: the same as the ``hourhand`` command."""

from scheduler.doors.entry import main

main()
