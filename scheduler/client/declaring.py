"""The recurring schedules that an application declares in its code, while a node of it runs.

Decides when a node declares them: at its start, again while they are in force, and when a newer set
that held them back is no longer declared by anybody. A store or log that does not answer delays
that and nothing else: the node runs meanwhile. No application waits for another one. The owner's
task decides which set is in force.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from threading import Event, Thread
from typing import Any

from hourhand.actors.model.values.display import message_of, shown
from hourhand.actors.model.values.errors import CallerError, InvalidTask
from hourhand.actors.model.values.instant import format_instant
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.client.system_requests import SystemRequests
from hourhand.scheduler.executors.registry import Hourhand
from hourhand.scheduler.services.recurring.declared import (
    APPLICATIONS,
    LEASE_MS,
    RENEW_MS,
    Declaration,
    Declared,
)
from hourhand.scheduler.services.recurring.requests import rule_of
from hourhand.scheduler.services.recurring.rule import RecurringRule

logger = logging.getLogger("hourhand.recurring")

AGAIN_S = 15.0
"""Pause after a declaration that failed."""
_ACKNOWLEDGED_S = 60.0


def sets_of(executors: object) -> "list[DeclaredSet]":
    """Return the sets that a registry declares; InvalidTask for a rule that is not valid, and
    InvalidExecutor where its application has no name.
    """
    if not isinstance(executors, Hourhand):
        return []
    return [
        DeclaredSet(f"{APPLICATIONS}{name}", {each: _rule(each, rules[each]) for each in rules})
        for name, rules in executors.recurring_by_application().items()
    ]


def _rule(name: str, given: Mapping[str, Any]) -> RecurringRule:
    try:
        return rule_of(name, **given)
    except InvalidTask as error:
        raise InvalidTask(f"the recurring schedule {shown(name)}: {error}") from None


def due_declaration(
    ours: Declaration, declared: Declared | None, now_ms: int
) -> Declaration | None:
    """Return what a node declares that looks at the row of its owner; None for nothing."""
    if declared is None:
        return ours
    if declared.digest == ours.digest:
        is_due = now_ms >= declared.renewed_ms + RENEW_MS
        return Declaration(ours.digest) if is_due else None
    return None if declared.is_held_against(ours.digest, now_ms) else ours


@dataclass(frozen=True, slots=True)
class DeclaredSet:
    """The schedules of one application."""

    owner: str
    rules: Mapping[str, RecurringRule]


class Declaring:
    """Declares the sets of one node."""

    def __init__(
        self,
        sets: Sequence[DeclaredSet],
        requests: SystemRequests,
        clock: Clock,
        stopping: Event | None = None,
    ) -> None:
        """``stopping`` tells the end of the thread, and lets its pauses pass."""
        self._sets = sets
        self._requests = requests
        self._clock = clock
        self._stopping = stopping or Event()
        self._thread = Thread(target=self._run, name="hourhand-declaring", daemon=True)
        self._declarations: dict[str, Declaration] = {}
        """By owner; sealed once, as each sealing gives another text."""
        self._told: set[str] = set()
        """Owners whose set was held back, which the log says."""
        self._failing: set[str] = set()
        """Owners whose set could not be declared yet, which the log says."""

    def start(self) -> None:
        """Begin to declare in a thread of its own, if there is anything to declare."""
        if self._sets:
            self._thread.start()

    def stop(self) -> None:
        """End that; returns at once."""
        self._stopping.set()

    def declare(self) -> None:
        """Declare every set; raises what the log or the store raises."""
        for each in self._sets:
            self._begin(each)

    def look(self) -> None:
        """Renew each set that is in force, and declare each one that nothing holds back."""
        for each in self._sets:
            self._look_at(each)

    def _look_at(self, ours: DeclaredSet) -> None:
        declared, now_ms = self._requests.find_declared(ours.owner), self._clock.now_ms()
        declaration = self._declaration_of(ours)
        due = due_declaration(declaration, declared, now_ms)
        if declared is not None and declared.digest == declaration.digest:
            self._told.discard(ours.owner)
        elif declared is not None and due is None and ours.owner not in self._told:
            self._told.add(ours.owner)
            logger.warning(
                "%s: other recurring schedules than those of this node are in force since a"
                " newer version declared them; those of this node take effect at %s, if no"
                " node of the newer version renews its own until then",
                ours.owner,
                format_instant(declared.renewed_ms + LEASE_MS),
            )
        if due is not None:
            self._declare(ours.owner, due)

    def _declaration_of(self, ours: DeclaredSet) -> Declaration:
        found = self._declarations.get(ours.owner)
        if found is None:
            found = self._declarations[ours.owner] = self._requests.declaration_of(ours.rules)
        return found

    def _declare(self, owner: str, declaration: Declaration) -> None:
        self._requests.declare_recurring(owner, declaration).result(_ACKNOWLEDGED_S)

    def _run(self) -> None:
        sets, pause_s = list(self._sets), 0.0
        begun: set[str] = set()
        while sets and not self._stopping.wait(pause_s):
            pause_s = RENEW_MS / 1000
            for ours in list(sets):
                act = self._look_at if ours.owner in begun else self._begin
                try:
                    act(ours)
                except CallerError as error:
                    text = "the recurring schedules of %s cannot be declared: %s"
                    logger.error(text, ours.owner, error)  # noqa: TRY400 - it says it all
                    sets.remove(ours)
                except BaseException as error:  # noqa: BLE001 - codecs are user code
                    self._tell_failure(ours.owner, error)
                    pause_s = AGAIN_S
                else:
                    begun.add(ours.owner)
                    self._failing.discard(ours.owner)

    def _begin(self, ours: DeclaredSet) -> None:
        self._declare(ours.owner, self._declaration_of(ours))

    def _tell_failure(self, owner: str, error: BaseException) -> None:
        if owner not in self._failing:
            self._failing.add(owner)
            logger.warning(
                "the recurring schedules of %s cannot be declared yet: %s; it tries again each"
                " %d s",
                owner,
                message_of(error) or type(error).__name__,
                timedelta(seconds=AGAIN_S).seconds,
            )
