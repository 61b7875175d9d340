"""A node ends although a driver of it does not."""

import logging
import threading

import pytest

from hourhand import Settings
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.kafka import closing as kafka_closing
from hourhand.scheduler.adapters.kafka import log as kafka_log
from hourhand.scheduler.adapters.kafka.reading import KafkaTopicReader
from hourhand.scheduler.kafka_only.kafka.tails import TailReader


def test_a_driver_that_never_closes_keeps_no_log_open(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What asks for positions may wait for brokers that are gone; the log is closed without."""
    monkeypatch.setattr(kafka_closing, "CLIENT_CLOSE_S", 0.01)
    settings = Settings(log="kafka", kafka={"bootstrap_servers": "127.0.0.1:1"})
    log = kafka_log.KafkaLog(settings, SystemClock())
    released = threading.Event()
    closing, positions = threading.Event(), log._positions
    close = positions.close

    def never_ends() -> None:
        closing.set()
        released.wait(60.0)
        close()

    monkeypatch.setattr(positions, "close", never_ends)
    closed = threading.Thread(target=log.close, daemon=True)
    with caplog.at_level(logging.WARNING):
        closed.start()
        assert closing.wait(30.0)
        closed.join(30.0)
        ended = not closed.is_alive()
    released.set()

    assert ended and "left behind" in caplog.text


@pytest.mark.parametrize("reader_type", [TailReader, KafkaTopicReader])
def test_a_reader_whose_driver_never_closes_is_closed_all_the_same(
    reader_type: type[TailReader | KafkaTopicReader],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What reads markers, layouts or dead letters may wait for brokers that are gone, too."""
    monkeypatch.setattr(kafka_closing, "CLIENT_CLOSE_S", 0.01)
    settings = Settings(log="kafka", kafka={"bootstrap_servers": "127.0.0.1:1"})
    reader = reader_type(settings, "hourhand")
    driver, released = reader._consumer, threading.Event()
    monkeypatch.setattr(reader, "_consumer", _NeverCloses(released))
    with caplog.at_level(logging.WARNING):
        closed = threading.Thread(target=reader.close, daemon=True)
        closed.start()
        closed.join(30.0)
        ended = not closed.is_alive()
    released.set()
    driver.close()

    assert ended and "left behind" in caplog.text


class _NeverCloses:
    """A driver that waits until it is told otherwise."""

    def __init__(self, released: threading.Event) -> None:
        self._released = released

    def close(self) -> None:
        self._released.wait(60.0)
