"""An operator's change of a limit while nodes run, by the limit's name.

Decides the limit in effect from its declaration and its change. Never decides what starts.
"""

from collections.abc import Mapping
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from hourhand.actors.model.flow.flow import REST, Limit, value_text
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidExecutor, InvalidTask

CHANGED_RATE_MAX = 1e9
"""Greatest rate that an operator may set, in starts of each ``per``."""
CHANGED_COUNT_MAX = 1_000_000_000
"""Greatest burst and concurrency that an operator may set."""
CHANGED_PER_MS_MAX = 366 * 86_400_000


class LimitChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """New values instead of declared ones; None leaves a value unchanged."""

    limit: str
    """The limit's name."""
    rate: float | None = None
    """The rate of each value of the key that is not named."""
    per_ms: int | None = None
    burst: int | None = None
    concurrency: int | None = None
    changed_ms: int = 0
    who: str = ""
    reason: str = ""
    rates: Mapping[str, float] = {}
    """The rates of single values of the key."""

    @classmethod
    def of_numbers(
        cls,
        limit: str,
        rate: float | None = None,
        per_ms: int | None = None,
        burst: int | None = None,
        concurrency: int | None = None,
        rates: Mapping[str, float] | None = None,
    ) -> "LimitChange":
        """Return a change as an operator asks for it; ``rates`` may have the rest's rate, too.

        Raises InvalidTask if nothing changes.
        """
        named = {value_text(value): each for value, each in (rates or {}).items()}
        rate = named.pop(REST, rate)
        change = cls(limit, rate, per_ms, burst, concurrency, rates=named)
        if change.numbers == cls(limit).numbers:
            raise InvalidTask("say what to change: rate, rates, per, burst or concurrency")
        return change

    @property
    def numbers(self) -> object:
        """The changed values, without the author."""
        return self.rate, self.per_ms, self.burst, self.concurrency, self.rates

    def signed(self, changed_ms: int, who: str, reason: str) -> "LimitChange":
        """Return the change with its time, author and reason."""
        return replace(self, changed_ms=changed_ms, who=who, reason=reason)

    def on_top_of(self, earlier: "LimitChange | None") -> "LimitChange":
        """Return the change, completed with the numbers of the earlier one."""
        if earlier is None:
            return self
        return replace(
            self,
            rate=earlier.rate if self.rate is None else self.rate,
            per_ms=earlier.per_ms if self.per_ms is None else self.per_ms,
            burst=earlier.burst if self.burst is None else self.burst,
            concurrency=earlier.concurrency if self.concurrency is None else self.concurrency,
            rates={**earlier.rates, **self.rates},
        )

    def of(self, declared: Limit) -> Limit:
        """Return the limit in effect; InvalidTask if the change does not fit the declaration.

        A change adds no rate or concurrency to a limit that has none.
        """
        self._refuse_numbers()
        of_a_rate = self.rate, self.per_ms, self.burst, self.rates
        if declared.rate is None and of_a_rate != (None, None, None, {}):
            raise InvalidTask(
                f"{self.limit} declares no rate, so rate, per and burst of it cannot be changed"
            )
        if declared.concurrency is None and self.concurrency is not None:
            raise InvalidTask(
                f"{self.limit} declares no concurrency, so that of it cannot be changed"
            )
        if self.rates and declared.key is None:
            raise InvalidTask(f"{self.limit} declares no key, so no value has a rate of its own")
        per = declared.per if self.per_ms is None else timedelta(milliseconds=self.per_ms)
        try:
            return Limit(
                rate=declared.rest_rate if self.rate is None else self.rate,
                per=per,
                burst=declared.burst if self.burst is None else self.burst,
                concurrency=declared.concurrency if self.concurrency is None else self.concurrency,
                key=declared.key,
            ).with_rates({**declared.named_rates, **self.rates})
        except InvalidExecutor as error:
            raise InvalidTask(f"{self.limit}: {error}") from None

    def _refuse_numbers(self) -> None:
        """Raise InvalidTask for a number that no limit can have."""
        if 0 in (self.rate, self.concurrency, *self.rates.values()):
            raise InvalidTask(
                f"a limit of 0 would let nothing of {self.limit} start: pause the ordering ids, a"
                " partition or everything instead"
            )
        for name, number, most in (
            ("rate", self.rate, CHANGED_RATE_MAX),
            ("per", self.per_ms, CHANGED_PER_MS_MAX),
            ("burst", self.burst, CHANGED_COUNT_MAX),
            ("concurrency", self.concurrency, CHANGED_COUNT_MAX),
            *(
                (f"rate of {shown(value)}", rate, CHANGED_RATE_MAX)
                for value, rate in self.rates.items()
            ),
        ):
            if number is not None and not 0 < number <= most:
                raise InvalidTask(
                    f"{name} of {self.limit} cannot be {shown(number)}: more than 0 and at most"
                    f" {most:g} is needed"
                )
