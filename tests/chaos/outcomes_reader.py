"""Reads the topic of outcomes during a chaos run, and writes down each record.

Decides nothing about what the records say.  Nothing of the engine is used: a Kafka consumer.
"""

import json
import threading
from pathlib import Path

from confluent_kafka import Consumer

from tests.chaos.records import OUTCOMES_FILE, Appender, now_us, write_told
from tests.judge.history import Told


class OutcomesReader:
    """Takes records from ``start`` until ``close``."""

    def __init__(self, bootstrap_servers: str, topic: str, folder: Path) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": f"{topic}-auditor",
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.subscribe([topic])
        self._file = Appender(folder / OUTCOMES_FILE)
        self._told: set[str] = set()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True, name="chaos-outcomes")

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def are_told(self, task_ids: set[str]) -> bool:
        """True if the topic has an outcome of each of these tasks."""
        return task_ids <= self._told

    def close(self) -> None:
        """Read no more."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()
        self._consumer.close()
        self._file.close()

    def _read(self) -> None:
        while not self._closed.is_set():
            message = self._consumer.poll(0.2)
            if message is None or message.error():
                continue
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
