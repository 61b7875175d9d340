"""An operator's change of a limit while nodes run, by the limit's name.

Decides the limit in effect from its declaration and its change. Never decides what starts.
"""

from datetime import timedelta

import msgspec

from hourhand.actors.model.errors import InvalidExecutor, InvalidTask
from hourhand.actors.model.flow import Limit

RATE_MAX = 1e9
COUNT_MAX = 1_000_000_000
PER_MS_MAX = 366 * 86_400_000


class LimitChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """New values instead of declared ones; None leaves a value unchanged."""

    limit: str
    """The limit's name."""
    rate: float | None = None
    per_ms: int | None = None
    burst: int | None = None
    concurrency: int | None = None
    changed_ms: int = 0
    who: str = ""
    reason: str = ""

    @property
    def numbers(self) -> tuple[float | None, int | None, int | None, int | None]:
        """The changed values, without the author."""
        return self.rate, self.per_ms, self.burst, self.concurrency

    def of(self, declared: Limit) -> Limit:
        """Return the limit in effect; InvalidTask if the change does not fit the declaration.

        A change adds no rate or concurrency to a limit that has none.
        """
        if self.rate == 0 or self.concurrency == 0:
            raise InvalidTask(
                f"a limit of 0 would let nothing of {self.limit} start: pause the ordering ids, a"
                " partition or everything instead"
            )
        for name, number, most in (
            ("rate", self.rate, RATE_MAX),
            ("per", self.per_ms, PER_MS_MAX),
            ("burst", self.burst, COUNT_MAX),
            ("concurrency", self.concurrency, COUNT_MAX),
        ):
            if number is not None and not 0 < number <= most:
                raise InvalidTask(
                    f"{name} of {self.limit} cannot be {number:g}: more than 0 and at most"
                    f" {most:g} is needed"
                )
        if declared.rate is None and (self.rate, self.per_ms, self.burst) != (None, None, None):
            raise InvalidTask(
                f"{self.limit} declares no rate, so rate, per and burst of it cannot be changed"
            )
        if declared.concurrency is None and self.concurrency is not None:
            raise InvalidTask(
                f"{self.limit} declares no concurrency, so that of it cannot be changed"
            )
        per = declared.per if self.per_ms is None else timedelta(milliseconds=self.per_ms)
        try:
            return Limit(
                rate=declared.rate if self.rate is None else self.rate,
                per=per,
                burst=declared.burst if self.burst is None else self.burst,
                concurrency=declared.concurrency if self.concurrency is None else self.concurrency,
                key=declared.key,
            )
        except InvalidExecutor as error:
            raise InvalidTask(f"{self.limit}: {error}") from None
