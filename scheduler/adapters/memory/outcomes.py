"""``OutcomeLog`` and ``KeptOutcomes`` in memory."""

from collections.abc import Sequence

from hourhand.actors.model.task.outcome_row import OutcomesRow
from hourhand.actors.ports.store import KeptOutcome
from hourhand.scheduler.adapters.memory.tables import MemoryTables, request

_GONE_MAX = 200
"""Removed ranges that are remembered, as those of servers are: a write may come late."""


class MemoryOutcomes(MemoryTables):
    """Rows of ``outcome_log`` and ``outcome_kept``."""

    @request
    def insert_closed(self, partition: int, rows: Sequence[OutcomesRow], write_time: int) -> None:
        stored = self._data.outcome_log.setdefault(partition, {})
        for row in rows:
            place = row.number, row.piece
            if any(f <= place <= t and at >= write_time for f, t, at in self._gone(partition)):
                continue
            if place not in stored or stored[place][0] < write_time:
                stored[place] = (write_time, row)

    @request
    def load_closed(
        self, partition: int, first: int, end: int, limit: int
    ) -> Sequence[OutcomesRow]:
        return self._between(partition, first, end)[:limit]

    @request
    def find_last_closed(self, partition: int, end: int) -> OutcomesRow | None:
        rows = self._between(partition, 0, end)
        return rows[-1] if rows else None

    @request
    def delete_closed(
        self, partition: int, first: tuple[int, int], last: tuple[int, int], write_time: int
    ) -> None:
        self._gone(partition).append((first, last, write_time))
        stored = self._data.outcome_log.get(partition, {})
        for place in [each for each in stored if first <= each <= last]:
            if stored[place][0] <= write_time:
                del stored[place]

    @request
    def keep_outcomes(self, values: Sequence[bytes], now_ms: int, retention_ms: int) -> None:
        data = self._data
        for value in values:
            data.kept_position += 1
            data.kept_outcomes[data.kept_position] = (now_ms, value)
        over_ms = now_ms - retention_ms
        for position in [p for p, (at_ms, _) in data.kept_outcomes.items() if at_ms < over_ms]:
            del data.kept_outcomes[position]

    @request
    def load_kept(self, after: int, limit: int) -> Sequence[KeptOutcome]:
        kept = self._data.kept_outcomes
        positions = sorted(each for each in kept if each > after)[:limit]
        return [KeptOutcome(each, kept[each][1]) for each in positions]

    def _gone(self, partition: int) -> list[tuple[tuple[int, int], tuple[int, int], int]]:
        """Return the ranges that were removed last, with their write times."""
        gone = self._data.outcomes_gone.setdefault(partition, [])
        del gone[:-_GONE_MAX]
        return gone

    def _between(self, partition: int, first: int, end: int) -> list[OutcomesRow]:
        stored = self._data.outcome_log.get(partition, {})
        return [stored[place][1] for place in sorted(stored) if first <= place[0] < end]
