"""Suggests the known name that is closest to a wrong one.

Decides which names are close enough.
"""

import difflib
from collections.abc import Iterable

_CHARS_MAX = 100
_NAMES_MAX = 1_000


def did_you_mean(written: object, known: Iterable[str]) -> str:
    """Return ``; did you mean X?`` if a known name is close, and else an empty text.

    Compares in lower case the first 100 characters of a name, and at most 1,000 names.
    """
    if type(written) is not str:
        return ""
    by_lower = {name.lower(): name for name, _ in zip(known, range(_NAMES_MAX), strict=False)}
    close = difflib.get_close_matches(written[:_CHARS_MAX].lower(), by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""
