"""Pytest plugin: fixtures around ``hourhand.testing``, registered by installing Hourhand.

Imports the kit only when a fixture is used, so that it costs other projects' tests nothing.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hourhand.testing import VirtualScheduler


@pytest.fixture
def virtual_scheduler() -> "Iterator[Callable[..., VirtualScheduler]]":
    """Make virtual schedulers; all of them are stopped when the test ends.

    Call it with what ``VirtualScheduler`` takes: ``virtual_scheduler(SendInvoice)``.
    """
    from hourhand.testing import VirtualScheduler

    made: list[VirtualScheduler] = []

    def make(*args: Any, **kwargs: Any) -> VirtualScheduler:
        made.append(VirtualScheduler(*args, **kwargs))
        return made[-1]

    yield make
    for scheduler in made:
        scheduler.stop()
