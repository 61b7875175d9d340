"""What counts as an interpreter that figures may be taken with."""

import pytest

from benchmarks import interpreter


@pytest.mark.parametrize(
    ("configured_with", "prefix", "optimized"),
    [
        ("'--enable-optimizations' '--with-lto'", "/opt/python", True),
        ("'--enable-shared' '--without-ensurepip'", "/usr", True),
        ("'--prefix=/opt/plain' '--enable-shared'", "/opt/plain", False),
        ("", "/usr/local", False),
    ],
)
def test_a_build_is_judged_by_its_arguments(
    configured_with: str, prefix: str, optimized: bool
) -> None:
    """And a distribution's by where it is."""
    assert interpreter.is_optimized(configured_with, prefix) is optimized
