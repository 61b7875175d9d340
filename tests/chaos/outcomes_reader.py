"""Writes down each record of the topic of outcomes during a chaos run.

Decides nothing about what the records say.
"""

import json
from pathlib import Path

from confluent_kafka import Message

from tests.chaos.records import OUTCOMES_FILE, Appender, now_us, write_told
from tests.chaos.topic_reader import TopicReader
from tests.judge.history import Told


class OutcomesReader:
    """Takes records from ``start`` until ``close``."""

    def __init__(self, bootstrap_servers: str, topic: str, folder: Path) -> None:
        self._file = Appender(folder / OUTCOMES_FILE)
        self._told: set[str] = set()
        self._reader = TopicReader(bootstrap_servers, topic, self._take)
        self.start = self._reader.start

    def are_told(self, task_ids: set[str]) -> bool:
        """True if the topic has an outcome of each of these tasks."""
        return task_ids <= self._told

    def close(self) -> None:
        """Read no more."""
        self._reader.close()
        self._file.close()

    def _take(self, message: Message) -> None:
        value = json.loads(message.value() or b"{}")
        told = Told(
            task_id=value["uniquenessKey"],
            ordering_id=value["orderingId"],
            result=value["result"],
            partition=int(message.partition() or 0),
            offset=int(message.offset() or 0),
            at_us=now_us(),
        )
        write_told(self._file, told)
        self._told.add(told.task_id)
