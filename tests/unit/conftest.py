"""Unit tests start nothing, open nothing and wait for nothing but what they test."""

from tests.isolation import (  # noqa: F401 - hooks
    pytest_fixture_setup,
    pytest_runtest_call,
    pytest_runtest_setup,
    pytest_runtest_teardown,
)
