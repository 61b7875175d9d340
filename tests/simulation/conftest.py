"""Silence for tests whose worlds break on purpose."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def quiet() -> Iterator[None]:
    """Log nothing: nodes and user code that fail would bury the verdict."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
