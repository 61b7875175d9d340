"""Names the tests that failed once and then passed, and why: each is a race to be found.

Never decides what is run again; CI asks for that with ``--reruns``.
"""

import pytest

REASON_CHARS_MAX = 3_000
"""Of the end of what a test failed with."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List them at the end, where the summary only counts them."""
    again = terminalreporter.stats.get("rerun", ())
    if again:
        terminalreporter.section("run again: find the cause of each", yellow=True)
        for report in sorted(again, key=lambda each: each.nodeid):
            terminalreporter.line(report.nodeid)
            terminalreporter.line(report.longreprtext[-REASON_CHARS_MAX:])
