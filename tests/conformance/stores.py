"""What every adapter of the three stores must do: one suite, bound once for each adapter.

How to bind it: in a test module, name the suite's classes and provide two fixtures::

    from tests.conformance.stores import OwnershipSuite, ScheduleSuite, StatusSuite

    class TestMemorySchedule(ScheduleSuite): ...
    class TestMemoryStatus(StatusSuite): ...
    class TestMemoryOwnership(OwnershipSuite): ...

    @pytest.fixture
    def stores() -> Iterator[Stores]: ...

    @pytest.fixture
    def reopen(stores: Stores) -> Reopen: ...

``stores`` is an opened ``actors.ports.store.Stores``, closed after the test.  It may share
its installation with other tests, as each uses a partition of its own; only the agreed
partition count must be unset before each test.  ``reopen`` is a callable without arguments
that closes what is open, opens the same data again and returns the new ``Stores``; whatever
it opened is closed after the test.  An adapter that keeps nothing on disk hands out new
``Stores`` over the same memory.

``write_time`` values are built as owners build them, from an epoch and a counter.
"""

from collections.abc import Callable

from actors.ports.store import Stores
from tests.conformance.ownership_suite import OwnershipSuite
from tests.conformance.schedule_suite import ScheduleSuite
from tests.conformance.status_suite import StatusSuite

Reopen = Callable[[], Stores]

__all__ = ["OwnershipSuite", "Reopen", "ScheduleSuite", "StatusSuite"]
