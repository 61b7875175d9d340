"""What every adapter of the stores must do: one suite, bound once for each adapter.

How to bind it: in a test module, name the suite's classes and provide two fixtures::

    from tests.conformance.stores import OwnershipSuite, PagingSuite, ...

    class TestMemorySchedule(ScheduleSuite): ...
    class TestMemoryPaging(PagingSuite): ...
    class TestMemoryStatus(StatusSuite): ...
    class TestMemoryCheckpoints(CheckpointSuite): ...
    class TestMemoryResults(ResultSuite): ...
    class TestMemoryDefinitions(DefinitionSuite): ...
    class TestMemoryOversight(OversightSuite): ...
    class TestMemoryTallies(TallySuite): ...
    class TestMemoryOwnership(OwnershipSuite): ...
    class TestMemoryWriters(WritersSuite): ...
    class TestMemoryReading(ReadingSuite): ...

    @pytest.fixture
    def stores() -> Iterator[Stores]: ...

    @pytest.fixture
    def reopen(stores: Stores) -> Reopen: ...

    @pytest.fixture
    def beside(stores: Stores) -> Beside: ...

``stores`` is an opened ``hourhand.actors.ports.store.Stores``, closed after the test.  It may share
its installation with other tests, as each uses a partition of its own; only the agreed
partition count must be unset before each test.  ``reopen`` is a callable without arguments
that closes what is open, opens the same data again and returns the new ``Stores``; whatever
it opened is closed after the test.  An adapter that keeps nothing on disk hands out new
``Stores`` over the same memory.  ``beside`` opens the same data once more, beside what is
open, as a node whose clock is so many minutes off; it too is closed after the test.

``write_time`` values are built as owners build them, from an epoch and a counter.
"""

from collections.abc import Callable

from hourhand.actors.ports.store import Stores
from tests.conformance.checkpoint_suite import CheckpointSuite
from tests.conformance.definition_suite import DefinitionSuite
from tests.conformance.outcome_suite import OutcomeSuite
from tests.conformance.oversight_suite import OversightSuite, TallySuite
from tests.conformance.ownership_suite import OwnershipSuite
from tests.conformance.paging_suite import PagingSuite
from tests.conformance.reading_suite import ReadingSuite
from tests.conformance.result_suite import ResultSuite
from tests.conformance.schedule_suite import ScheduleSuite
from tests.conformance.status_suite import StatusSuite
from tests.conformance.writers_suite import Beside, WritersSuite

Reopen = Callable[[], Stores]

__all__ = [
    "Beside",
    "CheckpointSuite",
    "DefinitionSuite",
    "OutcomeSuite",
    "OversightSuite",
    "OwnershipSuite",
    "PagingSuite",
    "ReadingSuite",
    "Reopen",
    "ResultSuite",
    "ScheduleSuite",
    "StatusSuite",
    "TallySuite",
    "WritersSuite",
]
