"""An installation at rest: no node runs, no record arrives, and nothing changes meanwhile.

Decides whether a job that copies everything may begin, and at its end whether the installation is
still unchanged.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property

from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.ownership import Claim
from hourhand.actors.model.operations.pauses import Pause
from hourhand.actors.model.values.errors import InstallationBusy, InvalidInput
from hourhand.scheduler import wiring
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.pipeline.options import Options
from hourhand.scheduler.ports.transfer import UNFINISHED, LogTail, Span
from hourhand.scheduler.runtime.answers import JOB_S, answered
from hourhand.scheduler.runtime.pause import pause

SETTLE_S = 1.0
"""Pause between two looks at the ends of the log: a running client writes more often."""


@dataclass(frozen=True)
class QuiescentState:
    """The state of an installation at the begin of a job."""

    claims: Mapping[int, Claim | None]
    """By partition; for the number of partitions with which the store was begun."""
    spans: Mapping[int, Span]
    """By partition of the log, which may have been given more of them since."""
    pauses: tuple[Pause, ...] = ()
    limits: tuple[LimitChange, ...] = ()

    @property
    def partition_count(self) -> int:
        """The installation's number of partitions."""
        return len(self.claims)

    @property
    def ends(self) -> Mapping[int, int]:
        """The end of each partition with which the store was begun."""
        return {each: self.spans[each].end for each in self.claims}

    @property
    def unread(self) -> int:
        """Number of records that no node has read, including control records."""
        return sum(span.end - span.next for span in self.spans.values())

    @cached_property
    def identity(self) -> str:
        """Identifies this state among later ones: each owner and each record changes it."""
        epochs = {each: claim.epoch for each, claim in self.claims.items() if claim is not None}
        places = {each: (span.next, span.end) for each, span in self.spans.items()}
        text = json.dumps([sorted(epochs.items()), sorted(places.items())])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


class Quiescence:
    """An installation that a lock keeps at rest, where there is one."""

    def __init__(self, settings: Settings, tail: LogTail) -> None:
        self._settings = settings
        self._tail = tail
        self.state = self._look()

    def require(self) -> None:
        """Raise InstallationBusy if nodes run, or records arrived since the first look."""
        if members := self._tail.members():
            raise InstallationBusy(
                f"{members} {'nodes are' if members > 1 else 'node is'} in group.id"
                f" {self._settings.group.id!r}: stop all of them first; a node that died is"
                " in the group for another group.session_timeout_ms"
            )
        now = self._look()
        for partition, span in self.state.spans.items():
            if now.spans[partition].end != span.end:
                raise InstallationBusy(
                    f"records still arrive in {log_name(self._settings)}, partition {partition}:"
                    f" it ended at {span.end} and ends at {now.spans[partition].end}; stop"
                    " everything that schedules tasks, then run the job once more"
                )
        if now.identity != self.state.identity:
            raise InstallationBusy(
                f"a node of group.id {self._settings.group.id!r} has worked since the job began:"
                " stop all of them, then run the job once more, into an empty target"
            )

    def _look(self) -> QuiescentState:
        settings = self._settings
        with closing(wiring.open_stores(settings)) as stores:
            partitions = sorted(self._tail.spans({}))
            asked = {each: stores.ownership.read_watermark(each) for each in partitions}
            claims = {each: answered(reading, JOB_S) for each, reading in asked.items()}
            config = answered(stores.oversight.read_config(OperatorConfig()), JOB_S)
        spans = self._tail.spans(claims)
        count = self._stored_count(len(spans))
        owned = {each: claim for each, claim in claims.items() if each < count}
        return QuiescentState(owned, spans, config.pauses, config.limits)

    def _stored_count(self, counted: int) -> int:
        """Return the number of partitions with which the store was begun; InvalidInput if the log
        has fewer. Nothing is stored for partitions that a topic was given since.
        """
        settings = self._settings
        with closing(wiring.open_bulk(settings)) as bulk:
            stored = bulk.partition_count()
        if stored == UNFINISHED:
            raise InvalidInput(
                f"{store_name(settings)} is still being filled by another job: run that one to its"
                " end"
            )
        if stored is not None and stored > counted:
            raise InvalidInput(
                f"{log_name(settings)} has {counted} partitions, but {store_name(settings)} was"
                f" begun with {stored}: these two do not belong together"
            )
        return stored or counted


@contextmanager
def at_rest(source: Options, settle_s: float = SETTLE_S) -> Iterator[Quiescence]:
    """Lock out an installation's nodes if a lock exists, and check that it is at rest.

    Raises InstallationBusy, and FolderLocked if an embedded node runs.
    """
    settings = source.settings()
    with closing(wiring.open_tail(settings)) as tail:
        release = keep_nodes_out(settings)
        try:
            quiescence = Quiescence(settings, tail)
            pause(settle_s)
            quiescence.require()
            yield quiescence
        finally:
            release()


def keep_nodes_out(settings: Settings) -> Callable[[], None]:
    """Hold the lock of the folder of log or store; return a function that releases it."""
    embedded = "embedded" in (settings.log, settings.store)
    if not embedded:
        return _nothing
    return wiring.keep_nodes_out(settings.model_copy(update={"store": "embedded"}))


def _nothing() -> None:
    """Stand for the release of a lock that does not exist."""


def log_name(settings: Settings) -> str:
    """Return the setting that names the log, with its value."""
    if settings.log == "kafka":
        return f"topic.name {settings.topic.name!r}"
    return f"the log of embedded.folder {str(settings.embedded.folder)!r}"


def store_name(settings: Settings) -> str:
    """Return the setting that names the store, with its value."""
    if settings.store == "cassandra":
        return f"cassandra.keyspace {settings.cassandra.keyspace!r}"
    return f"embedded.folder {str(settings.embedded.folder)!r}"
