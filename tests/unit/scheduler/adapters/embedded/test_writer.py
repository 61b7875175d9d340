"""A group of records in the embedded log: which of them failed, and that none is left waiting."""

from collections.abc import Sequence
from concurrent.futures import Future

import pytest

from hourhand.actors.model.values.errors import HourhandError, LogUnavailable
from hourhand.actors.ports.log import Position
from hourhand.scheduler.adapters.embedded.writer import EmbeddedGroup
from hourhand.scheduler.runtime.batcher import Batcher

Rows = Sequence[tuple[int, bytes, bytes, bytes | None]]


class _Writing:
    """Answers one transaction after another as the test says."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.answers: list[Future[Sequence[Position]]] = []

    def __call__(self, rows: Rows) -> "Future[Sequence[Position]]":
        self.sizes.append(len(rows))
        self.answers.append(Future())
        return self.answers[-1]

    def written(self) -> None:
        """Answer the last transaction."""
        self.answers[-1].set_result([Position(0, 0)] * self.sizes[-1])


def _filled(writing: _Writing, count: int) -> EmbeddedGroup:
    group = EmbeddedGroup(Batcher(writing, 3), partition_count=4, record_bytes_max=1_000)
    for number in range(count):
        group.append(f"id-{number}", b"{}")
    return group


def test_records_of_a_transaction_that_fails_are_told_by_their_numbers() -> None:
    """Those of the transactions before and after it are on the disk."""
    writing = _Writing()
    group = _filled(writing, 6)
    writing.written()
    writing.answers[-1].set_exception(LogUnavailable("the disk is full"))
    writing.written()

    failures = group.settle()

    assert writing.sizes == [1, 3, 2]
    assert [*failures] == [1, 2, 3]
    assert all(isinstance(error, LogUnavailable) for error in failures.values())


@pytest.mark.parametrize("error", [LogUnavailable("full"), LookupError("a bug")])
def test_a_group_whose_last_record_fails_is_settled(error: Exception) -> None:
    """What is not a HourhandError is raised, as the log does not answer so."""
    writing = _Writing()
    group = _filled(writing, 1)
    writing.answers[-1].set_exception(error)

    if isinstance(error, HourhandError):
        assert group.settle() == {0: error}
    else:
        with pytest.raises(LookupError):
            group.settle()
