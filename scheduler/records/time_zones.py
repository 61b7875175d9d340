"""Which names of time zones are taken.

Decides nothing about what is done with one.
"""

from zoneinfo import ZoneInfo

_OF_THE_MACHINE = frozenset({"localtime", "posixrules", "Factory"})
"""Files among the zones that hold another one on another machine."""


def is_known_zone(name: str) -> bool:
    """Whether there is a time zone of that name on this machine."""
    try:
        ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        # All three occur, depending on how a name is wrong.
        return False
    return True


def is_same_everywhere(name: str) -> bool:
    """Whether a known name means the same time zone on every machine."""
    return name not in _OF_THE_MACHINE
