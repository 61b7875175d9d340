"""Valid names of time zones.

It only checks names.
"""

from zoneinfo import ZoneInfo

_OF_THE_MACHINE = frozenset({"localtime", "posixrules", "Factory"})
"""Zone files whose meaning depends on the machine."""


def is_known_zone(name: str) -> bool:
    """True if this machine has a time zone of that name."""
    try:
        ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        # All three occur, depending on the fault in the name.
        return False
    return True


def is_same_everywhere(name: str) -> bool:
    """True if a known name means the same time zone on every machine."""
    return name not in _OF_THE_MACHINE
