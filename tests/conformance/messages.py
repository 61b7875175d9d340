"""The contract of every ``MessageWriter``.

Bound by naming the suite in a test module with two fixtures: ``messages``, an opened writer, and
``read``, which returns the first so many messages of the topic ``TOPIC``, by key, in their order.
"""

from collections.abc import Callable

import pytest

from hourhand.actors.model.task.codec import Headers
from hourhand.scheduler.ports.messages import MessageWriter

TOPIC = "conformance-messages"
Found = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
Read = Callable[[int], list[Found]]

HEADERS: Headers = [("b", b"\xff\xfe"), ("a", None), ("b", b""), ("é", b"1"), ("b", b"\xff\xfe")]


class MessageSuite:
    """The contract of every ``MessageWriter``."""

    @pytest.mark.parametrize("key", [None, b"", b"k", b"\x00\xff"])
    @pytest.mark.parametrize("value", [None, b"", b"\x00\xff" * 1_000])
    def test_a_message_is_written_byte_for_byte(
        self, messages: MessageWriter, read: Read, key: bytes | None, value: bytes | None
    ) -> None:
        """Absent and empty differ; headers keep their order and repetitions."""
        messages.produce(TOPIC, key, value, HEADERS).result(60)

        assert read(1) == [(key, value, list(HEADERS))]

    def test_messages_of_one_key_keep_their_order(
        self, messages: MessageWriter, read: Read
    ) -> None:
        """Without waiting for each."""
        futures = [messages.produce(TOPIC, b"k", b"%d" % number, ()) for number in range(500)]
        for future in futures:
            future.result(60)

        assert [value for _, value, _ in read(500)] == [b"%d" % number for number in range(500)]

    def test_what_hears_of_a_message_may_write_others(
        self, messages: MessageWriter, read: Read
    ) -> None:
        """Many at once, while others wait to be reported."""

        def go_on(_reported: object) -> None:
            for _ in range(100):
                messages.produce(TOPIC, b"k", b"more", ())

        futures = [messages.produce(TOPIC, b"k", b"first", ()) for _ in range(20)]
        for future in futures:
            future.add_done_callback(go_on)
        for future in futures:
            future.result(60)

        assert len(read(20 + 20 * 100)) == 2_020
