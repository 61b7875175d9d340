"""How often a member on a real broker says that it is there."""

import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from hourhand.scheduler.adapters.kafka import heartbeats
from hourhand.scheduler.adapters.kafka.log import HeartbeatWaker
from hourhand.scheduler.adapters.kafka.topics import create_topics
from hourhand.scheduler.configuration.settings import Settings
from tests.conformance.kafka_world import KafkaWorld
from tests.conformance.log_bench import WAIT_S
from tests.servers.kafka import KafkaServer, keep_session

pytestmark = pytest.mark.integration

HEARTBEAT_MS = 250
LOOKS_MAX = 5
WATCHED_S = 5.0
COUNTED_S = 4.0
POLL_S = 0.05


class _Heartbeats(logging.Handler):
    """Counts the heartbeats that the driver says it sends."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        self.count += "Heartbeat for group" in said or "GroupHeartbeat of member" in said


class _Member:
    """A member of a group of its own, which polls as a node does."""

    def __init__(self, settings: Settings, group: str) -> None:
        self.heartbeats = _Heartbeats()
        logger = logging.getLogger(f"{__name__}.{group}")
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.addHandler(self.heartbeats)
        properties: dict[str, Any] = {
            "bootstrap.servers": settings.kafka.bootstrap_servers,
            "group.id": group,
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "enable.auto.commit": False,
            "on_commit": lambda _error, _partitions: None,
            "debug": "cgrp",
        }
        self.consumer: Any = Consumer(properties, logger=logger)
        self.consumer.subscribe([settings.topic.name])

    def poll(self, polled: Callable[[float], None], seconds: float, *, enough: int = 10**6) -> None:
        """Poll for a while, or until there were ``enough`` heartbeats."""
        ends_s = time.monotonic() + seconds
        while time.monotonic() < ends_s and self.heartbeats.count < enough:
            polled(time.monotonic() * 1000)
            self.consumer.consume(1, POLL_S)


def heartbeats_of(settings: Settings, group: str, *, woken: bool) -> int:
    """Return how many heartbeats a member sent that was watched for a while."""
    member = _Member(settings, group)
    waker = HeartbeatWaker(member.consumer, HEARTBEAT_MS)
    polled = waker.polled if woken else lambda _now_ms: None
    try:
        member.poll(polled, WAIT_S, enough=1)
        member.heartbeats.count = 0
        member.poll(polled, WATCHED_S)
    finally:
        member.consumer.close()
    return member.heartbeats.count


def test_heartbeats_come_as_often_as_asked_where_the_driver_is_woken(
    kafka_server: KafkaServer,
) -> None:
    """Beside a member that does not wake it; should that one keep up, waking can go."""
    settings = KafkaWorld(kafka_server.bootstrap_servers).settings("heartbeats", 1)
    create_topics(settings)
    seen = []
    # A busy machine may hold up either of them for a while, so one good look is enough.
    for number in range(LOOKS_MAX):
        woken = heartbeats_of(settings, f"woken-{number}", woken=True)
        left_alone = heartbeats_of(settings, f"left-alone-{number}", woken=False)
        seen.append((woken, left_alone))
        if woken > 1.4 * left_alone > 0:
            break

    woken, left_alone = seen[-1]
    assert woken > 1.4 * left_alone > 0, seen


def test_statistics_count_the_heartbeats_that_the_driver_sends(kafka_server: KafkaServer) -> None:
    """Under the consumer protocol the lease rests on it: a commit, a fetch or a wake is none."""
    settings = KafkaWorld(kafka_server.bootstrap_servers, "consumer").settings("counted", 1)
    keep_session(kafka_server.bootstrap_servers, settings.group)
    create_topics(settings)
    counted: list[int] = []
    sent = _Heartbeats()
    consumer = _counting(settings, counted, sent)
    consumer.subscribe([settings.topic.name])
    ends_s = time.monotonic() + COUNTED_S
    while time.monotonic() < ends_s:
        consumer.consume(1, POLL_S)
        if consumer.assignment():
            consumer.commit(offsets=[TopicPartition(settings.topic.name, 0, 0)], asynchronous=True)
            consumer.commit(offsets=[], asynchronous=True)
    before = sent.count
    for _ in range(8):
        consumer.consume(1, POLL_S)
    consumer.close()

    assert counted == sorted(counted)
    assert before > 10
    assert before - 2 <= counted[-1] <= sent.count


def _counting(settings: Settings, counted: list[int], sent: logging.Handler) -> Any:
    """Open a member that notes how many heartbeats its statistics tell of."""

    def observe(statistics: str) -> None:
        told = heartbeats.decoder.decode(statistics).brokers.get("GroupCoordinator")
        if told is not None and (count := told.heartbeats()) is not None:
            counted.append(count)

    logger = logging.getLogger(f"{__name__}.counted")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(sent)
    properties: dict[str, Any] = {
        "bootstrap.servers": settings.kafka.bootstrap_servers,
        "group.id": settings.group.id,
        "group.protocol": "consumer",
        "enable.auto.commit": False,
        "on_commit": lambda _error, _partitions: None,
        "statistics.interval.ms": 100,
        "stats_cb": observe,
        "debug": "cgrp",
    }
    return Consumer(properties, logger=logger)
