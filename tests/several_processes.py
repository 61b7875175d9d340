"""Decides which of several processes runs which test, and what remains of one that crashed.

Never decides how many there are; the Makefile asks for them with ``-n``.
"""

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

_UNIT = ("tests/unit/", "tests/property/")
"""Each is judged by what its process does meanwhile: see tests/isolation.py."""

_TOGETHER = ("tests/pipeline/", "tests/security/")
"""The tests of each share a Spark session, or servers of their own, so one process runs them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the unit tests, and go on with the tests that take longest.

    A driver that another test has used leaves threads and finalizers in the process, which a unit
    test would be blamed for.  Long tests before short ones let the processes end at about the same
    time.
    """
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    if item.nodeid.startswith(_UNIT):
        return 0
    if item.nodeid.startswith(_TOGETHER):
        return 1
    # A test that waits for a server, or that takes long, says so.
    markers = ("integration", "slow")
    ranks = [at for at, name in enumerate(markers, start=2) if item.get_closest_marker(name)]
    return min(ranks, default=len(markers) + 2)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "LoadScopeScheduling | None":
    """Give each process a file at a time, in the order of ``pytest_collection_modifyitems``.

    ``--dist`` asks for another way.
    """
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class FileByFile(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            together = (folder for folder in _TOGETHER if nodeid.startswith(folder))
            return next(together, nodeid.partition("::")[0])

        def remove_node(self, node: Any) -> str | None:
            # The files that the process had finished would be handed out again as empty ones,
            # and who gets an empty one waits for ever.
            work = self.assigned_work[node]
            for scope in [scope for scope, tests in work.items() if all(tests.values())]:
                del work[scope]
            crashed: str | None = super().remove_node(node)
            return crashed

        def mark_test_pending(self, item: str) -> None:
            """Do nothing: a test that crashed its process was never marked complete."""

    config.option.loadscopereorder = False  # it would begin with the files of many tests
    return FileByFile(config, log)
