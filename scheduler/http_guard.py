"""What every HTTP door asks of a request before it is looked at: a token, and not too often.

Decides nothing about paths; which of them need a token is the door's.
"""

import hmac
from collections.abc import Iterable, Mapping

from pydantic import SecretStr

from actors.ports.clock import Clock


class TokenBucket:
    """Takes so many requests a second, and so many at once."""

    def __init__(self, clock: Clock, per_second: int, burst: int) -> None:
        self._clock = clock
        self._per_second = per_second
        self._burst = burst
        self._tokens = float(burst)
        self._filled_ms = clock.monotonic_ms()

    def take(self) -> bool:
        """Return whether one more request may be taken now."""
        if not self._per_second:
            return True
        now_ms = self._clock.monotonic_ms()
        gained = (now_ms - self._filled_ms) * self._per_second / 1000
        self._tokens, self._filled_ms = min(self._burst, self._tokens + gained), now_ms
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def is_among(authorization: str, tokens: Iterable[SecretStr]) -> bool:
    """Return whether an ``Authorization`` header holds one of these bearer tokens."""
    return name_of(authorization, {str(n): each for n, each in enumerate(tokens)}) is not None


def name_of(authorization: str, tokens: Mapping[str, SecretStr]) -> str | None:
    """Return the name of the bearer token in an ``Authorization`` header; None where it is none.

    Every token is compared, so that the time taken tells nothing.
    """
    scheme, _, given = authorization.partition(" ")
    found = [
        name
        for name, token in tokens.items()
        if hmac.compare_digest(given.strip().encode(), token.get_secret_value().encode())
    ]
    return found[0] if found and scheme.lower() == "bearer" else None
