"""Pausing and resuming: the valid targets, and the form in which pauses are shown."""

from collections.abc import Iterable, Sequence
from typing import Self

from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.pauses import Pause, PauseScope
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.display import storable_text
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.admin.answers import Answer, Instant, instant_text
from hourhand.scheduler.admin.config_changes import ConfigChanges

_REASON_CHARS_MAX = 300
_NAMED_MAX = 3

Target = tuple[PauseScope, int, str]
"""The target of a pause: scope, partition (-1 for all), ordering id."""
CHANGED_WORDS = {"pause": "paused", "resume": "resumed"}
"""The audit log's words for a change that was made."""


class ShownPause(Answer, frozen=True):
    """A paused target, since when, by whom and why."""

    scope: PauseScope
    partition: int | None
    ordering_id: str | None
    since: Instant | None
    who: str
    reason: str

    @classmethod
    def of(cls, pause: Pause) -> Self:
        """Show a pause."""
        return cls(
            scope=pause.scope,
            partition=None if pause.partition < 0 else pause.partition,
            ordering_id=pause.ordering_id or None,
            since=instant_text(pause.paused_ms),
            who=pause.who,
            reason=pause.reason,
        )


class ShownPauses(Answer, frozen=True):
    """All that is paused."""

    version: int
    pauses: list[ShownPause]

    @classmethod
    def of(cls, config: OperatorConfig) -> Self:
        """Show an operator config."""
        return cls(version=config.version, pauses=[ShownPause.of(each) for each in config.pauses])


class Pauses:
    """Changes the operator config of an installation."""

    def __init__(self, config_changes: ConfigChanges, clock: Clock, partition_count: int) -> None:
        self._config_changes = config_changes
        self._clock = clock
        self._partition_count = partition_count

    def config(self) -> OperatorConfig:
        """Return the pauses."""
        return self._config_changes.config()

    def target(self, scope: PauseScope, partition: int | None, ordering_id: str | None) -> Target:
        """Return the target that these arguments name; InvalidTask if they do not fit together."""
        match scope:
            case PauseScope.ALL if partition is None and ordering_id is None:
                return scope, -1, ""
            case PauseScope.PARTITION if partition is not None and ordering_id is None:
                if not 0 <= partition < self._partition_count:
                    raise InvalidTask(
                        f"partition {partition} is not one of 0 to {self._partition_count - 1}"
                    )
                return scope, partition, ""
            case PauseScope.ORDERING if ordering_id and partition is None:
                if storable_text(ordering_id) != ordering_id:
                    raise InvalidTask("no task has an ordering id that UTF-8 cannot hold")
                return scope, partition_of(ordering_id, self._partition_count), ordering_id
            case _:
                raise InvalidTask(
                    "a pause of scope all has no target, one of scope partition a partition, one"
                    " of scope ordering an orderingId"
                )

    def pause(self, targets: Iterable[Target], who: str, reason: str) -> OperatorConfig:
        """Pause targets; a target that is already paused keeps the name of the user who paused
        it.
        """
        now_ms = self._clock.now_ms()
        words = storable_text(who)[:100], storable_text(reason)[:_REASON_CHARS_MAX]
        added = [Pause(*target, now_ms, *words) for target in targets]
        return self._config_changes.change(lambda config: config.with_pauses(added))

    def resume(self, targets: Iterable[Target]) -> OperatorConfig:
        """Lift pauses; a target that is not paused is ignored."""
        lifted = list(targets)
        return self._config_changes.change(lambda config: config.without(lifted))


def target_words(targets: Sequence[Target]) -> str:
    """Return targets in words: the first by name, the rest by number."""
    named = [_words(each) for each in targets[:_NAMED_MAX]]
    more = len(targets) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _words(target: Target) -> str:
    scope, partition, ordering_id = target
    if scope is PauseScope.ALL:
        return "everything"
    return ordering_id or f"partition {partition}"
