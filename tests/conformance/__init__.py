"""The contract of every port, in suites that each adapter binds."""

import pytest

# The suites assert outside of test modules; without this a failure would show no values.
pytest.register_assert_rewrite(
    "tests.conformance.log_appending",
    "tests.conformance.log_hardships",
    "tests.conformance.log_membership",
    "tests.conformance.log_reading",
    "tests.conformance.ownership_suite",
    "tests.conformance.paging_suite",
    "tests.conformance.schedule_suite",
    "tests.conformance.status_suite",
    "tests.conformance.writers_suite",
)
