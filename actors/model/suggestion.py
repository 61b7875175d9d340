"""The name that somebody probably meant who wrote one that is not there.

Decides what is close enough.  Never decides whether a name is there.
"""

import difflib
from collections.abc import Iterable

_CHARS_MAX = 100
_NAMES_MAX = 1_000


def did_you_mean(written: object, known: Iterable[str]) -> str:
    """Return ``; did you mean X?`` where a known name is close, and else nothing.

    Lower case is compared, as much of a name as 100 characters, and 1,000 names at most.
    """
    if type(written) is not str:
        return ""
    by_lower = {name.lower(): name for name, _ in zip(known, range(_NAMES_MAX), strict=False)}
    close = difflib.get_close_matches(written[:_CHARS_MAX].lower(), by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""
