"""What a memory store holds, and one node's view of it."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from actors.model.bucket import hour_of
from actors.model.definition import Definition, DefinitionName
from actors.model.errors import StoreUnavailable
from actors.model.oversight import AuditEntry, AuditPlace, NodeReport
from actors.model.ownership import Claim
from actors.model.pauses import PauseSheet
from actors.model.status import AttemptRecord, Completion, RecordedOutcome
from actors.model.task import StoredTask
from scheduler.adapters.memory.delivery import Deliver, Request
from scheduler.adapters.memory.rows import Rows

Answer = TypeVar("Answer")


class MemoryStores:
    """What a store holds, whoever has it open."""

    def __init__(self) -> None:
        self.tasks: Rows[StoredTask] = Rows()
        self.completions: Rows[Completion] = Rows()
        self.attempts: Rows[AttemptRecord] = Rows()
        self.claims: dict[int, Claim] = {}
        self.outcomes: dict[tuple[int, int], tuple[int, RecordedOutcome]] = {}
        """By partition and offset: write time and outcome."""
        self.definitions: dict[int, dict[DefinitionName, Definition]] = {}
        """By partition."""
        self.partition_count: int | None = None
        self.reports: dict[str, NodeReport] = {}
        """By node."""
        self.pauses = PauseSheet()
        self.audit: dict[AuditPlace, AuditEntry] = {}
        self.tallies: dict[int, dict[int, tuple[int, bytes]]] = {}
        """By partition and hour: write time and encoded counts."""
        self.counted_offsets: dict[int, tuple[int, int]] = {}
        """By partition: write time and offset."""
        self.page_limit: Callable[[int], int] = lambda limit: limit
        """How many rows a page holds where so many were asked for; a store may answer fewer."""


class View:
    """One node's way to the data: makes requests, and refuses them once it is closed."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._closed = False

    def ask(self, kind: str, partition: int, effect: Callable[[], Answer]) -> "Future[Answer]":
        """Hand a request to whoever delivers; StoreUnavailable where the view is closed."""
        request = Request(kind, partition, effect)
        if self._closed:
            request.fail(StoreUnavailable("the store was closed; open it again to go on"))
        else:
            self._deliver(request)
        return request.future

    def close(self) -> None:
        """Refuse what comes from now on."""
        self._closed = True


def check_hours(*starts: int) -> None:
    """Raise ValueError where one of these is not the start of an hour."""
    for each in starts:
        if each != hour_of(each):
            raise ValueError(f"{each} is not the start of an hour")
