"""The contract of ``TaskLog`` and ``LogWriter``, as one suite that every adapter passes.

To bind it to an adapter, write a module ``test_<adapter>_log.py`` here with a fixture and an
empty class::

    @pytest.fixture(scope="module")
    def log_world() -> Iterator[LogWorld]:
        yield MyWorld()

    class TestMyLog(TaskLogContract):
        pass

``LogWorld`` (in ``log_bench``) says what the adapter can do: with ``members_max`` 1 the tests
of two members are skipped, without ``has_lease_expiry`` ownership is guarded by a lock and the
lease is ``inf`` while the log is open.  ``create_topic`` returns a fresh topic for each test.
"""

from tests.conformance.log_appending import AppendingContract
from tests.conformance.log_hardships import HardshipContract
from tests.conformance.log_made_anew import MadeAnewContract
from tests.conformance.log_membership import MembershipContract
from tests.conformance.log_reading import ReadingContract


class TaskLogContract(
    ReadingContract, AppendingContract, HardshipContract, MembershipContract, MadeAnewContract
):
    """Everything a log must do, for one adapter."""
