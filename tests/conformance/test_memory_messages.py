"""Binds the message suite to the memory writer, which makes it a verified fake."""

import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.scheduler.adapters.memory.writer import MemoryMessages
from tests.conformance.messages import Found, MessageSuite, Read


@pytest.fixture
def messages() -> MemoryMessages:
    """Return a writer."""
    return MemoryMessages(VirtualClock(0))


@pytest.fixture
def read(messages: MemoryMessages) -> Read:
    """Return what was written."""

    def first(count: int) -> list[Found]:
        return [(each.key, each.value, list(each.headers)) for each in messages.messages[:count]]

    return first


class TestMemoryMessages(MessageSuite):
    """In memory."""
