"""Runs the style tests first: they are quick, and what they find explains what follows."""

from pathlib import Path

import pytest

_HERE = Path(__file__).parent


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the tests of this folder before all others; the order within stays."""
    items.sort(key=lambda item: not item.path.is_relative_to(_HERE))
