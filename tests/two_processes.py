"""Decides which of several processes runs which test, and what remains of one that crashed.

Never decides how many there are; ``make test`` asks for two with ``-n``.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

_PROGRAMS = (
    "tests/integration/test_demo_",
    "tests/integration/test_benchmark_",
    "tests/two_versions/",
)
"""Files that run whole programs on servers: a fifth of the time that such tests take."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "LoadScopeScheduling":
    """Keep the files that wait for servers together, where two processes run tests.

    Those that run whole programs are together, too, and have servers of their own, so that one
    process takes about as long as the other.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ServersTogether(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            if not _asks_for_servers(config.rootpath / path):
                return path
            return "programs" if path.startswith(_PROGRAMS) else "servers"

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

    return ServersTogether(config, log)


@cache
def _asks_for_servers(path: Path) -> bool:
    return "pytest.mark.integration" in path.read_text(encoding="utf-8")
