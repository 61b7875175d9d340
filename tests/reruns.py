"""Names the tests that failed once and then passed: each is a race that somebody has to find.

Never decides what is run again; CI asks for that with ``--reruns``.
"""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List them at the end, where the summary only counts them."""
    again = sorted({report.nodeid for report in terminalreporter.stats.get("rerun", ())})
    if again:
        terminalreporter.section("run again: find the cause of each", yellow=True)
        for name in again:
            terminalreporter.line(name)
