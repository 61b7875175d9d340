"""A topic that takes nothing, and the room that it leaves to the others."""

from concurrent.futures import Future

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.task.codec import Headers
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.scheduler.services.relay.shares import HELD_BYTES_MAX, SILENT_MS, SharedMessages

MEGABYTE = b"x" * 1_000_000


class SlowMessages:
    """Acknowledges what the test says, and nothing by itself."""

    def __init__(self) -> None:
        self.produced: list[tuple[str, Future[None]]] = []
        self.closed = False

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "Future[None]":
        """Take a message."""
        del key, value, headers
        self.produced.append((topic, Future()))
        return self.produced[-1][1]

    def close(self) -> None:
        """Take note."""
        self.closed = True


def test_p7_a_topic_that_takes_nothing_has_its_share_of_the_queue_and_no_more() -> None:
    """Others go on; once it acknowledges something it may have more again."""
    clock, slow = VirtualClock(0), SlowMessages()
    messages = SharedMessages(slow, clock)
    held = HELD_BYTES_MAX // len(MEGABYTE) + 1
    for _ in range(held):
        messages.produce("away", b"k", MEGABYTE, ())
    clock.advance(round(SILENT_MS) + 1)

    refused = messages.produce("away", b"k", b"one more", ())
    other = messages.produce("other", b"k", MEGABYTE, ())

    assert isinstance(refused.exception(0), LogUnavailable)
    assert "'away'" in str(refused.exception())
    assert not other.done()
    assert len(slow.produced) == held + 1
    slow.produced[0][1].set_result(None)
    assert not messages.produce("away", b"k", b"one more", ()).done()
    messages.close()
    assert slow.closed


def test_a_topic_that_takes_everything_may_have_as_much_under_way_as_there_is_room_for() -> None:
    """However much that is, and empty messages as well."""
    clock, slow = VirtualClock(0), SlowMessages()
    messages = SharedMessages(slow, clock)
    for _ in range(40):
        clock.advance(round(SILENT_MS) // 2)
        messages.produce("busy", b"k", MEGABYTE, [("h", b"v"), ("n", None)])
        messages.produce("busy", None, None, ())
        next(each for _, each in slow.produced if not each.done()).set_result(None)

    assert len(slow.produced) == 80
    for _, produced in slow.produced:
        if not produced.done():
            produced.set_exception(LogUnavailable("it went away"))
    assert not messages.produce("busy", b"k", MEGABYTE, ()).done()
