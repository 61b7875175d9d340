"""A runner for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.unit.scheduler.node.runner_bench import Bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A runner that is closed afterwards."""
    made = Bench()
    yield made
    made.close()
