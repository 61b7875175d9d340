"""The Kafka driver's own mock broker, whose answers a test chooses.

It lives inside a client of the driver and is reached over TCP, like a real one.  Python's driver
does not expose it, so its functions are called in the library that the driver has loaded.
"""

import ctypes
from pathlib import Path
from typing import Any, Self

import confluent_kafka
from confluent_kafka import KafkaError, Producer

_PRODUCE = 0
"""Number of a produce request in Kafka's protocol."""


class MockBroker:
    """One broker that takes any topic; as a context manager it ends on exit."""

    def __init__(self) -> None:
        self._library = _loaded_library()
        # The name is replaced by the mock's own address.
        self._host: Any = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock:1"})
        self._cluster = self._library.rd_kafka_handle_mock_cluster(_handle_of(self._host))
        self.bootstrap_servers: str = self._library.rd_kafka_mock_cluster_bootstraps(
            self._cluster
        ).decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._host = None

    def lose_tail(self, requests: int = 1) -> None:
        """Answer so many produce requests as a leader does that lost the end of its log.

        The driver's producer never recovers from that: it is fatal to it.
        """
        errors = (ctypes.c_int * requests)(*[KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER] * requests)
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, _PRODUCE, requests, errors
        )


def _loaded_library() -> Any:
    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    library = ctypes.CDLL(str(next(folder.glob("librdkafka*"))))
    pointer = ctypes.c_void_p
    library.rd_kafka_handle_mock_cluster.argtypes = [pointer]
    library.rd_kafka_handle_mock_cluster.restype = pointer
    library.rd_kafka_mock_cluster_bootstraps.argtypes = [pointer]
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    library.rd_kafka_mock_push_request_errors_array.argtypes = [
        pointer,
        ctypes.c_int16,
        ctypes.c_size_t,
        ctypes.POINTER(ctypes.c_int),
    ]
    return library


def _handle_of(client: Any) -> int | None:
    """Return the library's handle, the first field of the driver's object behind its header."""
    return ctypes.c_void_p.from_address(id(client) + object.__basicsize__).value
