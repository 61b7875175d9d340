"""``LogView`` on Kafka: bounds of the task topic, and the dead-letter topic read backwards.

A page reads from each partition as many letters as the page may hold, and keeps the newest of all;
its cursor has the place reached in each partition.
"""

import threading
from collections.abc import Mapping, Sequence

from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.values.errors import TopicMissing
from hourhand.actors.ports.log import Position
from hourhand.scheduler.adapters.kafka.reading import KafkaTopicReader
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.ports.dead_letters import LetterPage, LogEnd


class KafkaLogView:
    """Reads ``topic.name`` and ``topic.dead_letter``; opened at its first use."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._readers: dict[str, KafkaTopicReader] = {}

    def ends(self) -> Mapping[int, LogEnd]:
        with self._lock:
            bounds = self._reader(self._settings.topic.name).bounds()
        return {partition: LogEnd(*each) for partition, each in bounds.items()}

    def letters(self, before: str | None, limit: int) -> LetterPage:
        """Read dead letters; a missing topic has none."""
        left = _parsed(before) if before else {}
        with self._lock:
            try:
                reader = self._reader(self._settings.topic.dead_letter)
                bounds = reader.bounds()
            except TopicMissing:
                return LetterPage([], None)
            found: list[LogRecord] = []
            starts: dict[int, tuple[int, int]] = {}
            for partition, (first, last) in bounds.items():
                end = min(last, left.get(partition, last))
                starts[partition] = (first, end)
                pieces = reader.read(partition, max(first, end - limit), end)
                found += [each for some in pieces for each in some]
        found.sort(key=lambda each: (each.timestamp_ms, each.offset), reverse=True)
        page = found[:limit]
        for each in page:
            first, end = starts[each.partition]
            starts[each.partition] = (first, min(end, each.offset))
        more = any(end > first for first, end in starts.values()) and bool(page)
        following = ",".join(f"{p}:{end}" for p, (_, end) in sorted(starts.items()))
        return LetterPage(page, following if more else None)

    def find_letters(self, places: Sequence[Position]) -> Mapping[Position, LogRecord]:
        found: dict[Position, LogRecord] = {}
        with self._lock:
            try:
                reader = self._reader(self._settings.topic.dead_letter)
                bounds = reader.bounds()
            except TopicMissing:
                return {}
            for place in dict.fromkeys(places):
                first, end = bounds.get(place.partition, (0, 0))
                if first <= place.offset < end:
                    for some in reader.read(place.partition, place.offset, place.offset + 1):
                        for each in some:
                            found[Position(each.partition, each.offset)] = each
        return found

    def close(self) -> None:
        with self._lock:
            while self._readers:
                self._readers.popitem()[1].close()

    def _reader(self, topic: str) -> KafkaTopicReader:
        if topic not in self._readers:
            self._readers[topic] = KafkaTopicReader(self._settings, topic)
        return self._readers[topic]


def _parsed(before: str) -> dict[int, int]:
    left: dict[int, int] = {}
    for part in before.split(","):
        partition, colon, offset = part.partition(":")
        if not (colon and partition.isdecimal() and offset.isdecimal() and len(offset) < 19):
            raise ValueError(f"{before[:80]!r} is not a place among the dead letters")
        left[int(partition[:9])] = int(offset)
    return left
