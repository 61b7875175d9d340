"""A node ends although a driver of it does not."""

import logging
import threading

import pytest

from scheduler import Settings
from scheduler.adapters.clock import SystemClock
from scheduler.adapters.kafka import log as kafka_log


def test_a_driver_that_never_closes_keeps_no_log_open(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What asks for positions may wait for brokers that are gone; the log is closed without."""
    monkeypatch.setattr(kafka_log, "_POSITIONS_CLOSE_S", 0.01)
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
        closed.join(5.0)
        ended = not closed.is_alive()
    released.set()

    assert ended and "left behind" in caplog.text
