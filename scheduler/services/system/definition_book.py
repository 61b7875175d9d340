"""The definitions as executors use them: one at a time, read and written in batches.

While one request of a partition is under way, later ones wait and go together, so thousands of
tasks a second cost the store a few hundred requests. It decides nothing about the content of a
definition.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from hourhand.actors.kernel.futures import gather
from hourhand.actors.model.task.definition import Definition, DefinitionKind, DefinitionName
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.display import shown, storable_text
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.definitions import DefinitionPage, DefinitionStore
from hourhand.scheduler.runtime.answers import answered
from hourhand.scheduler.runtime.batcher import Batcher
from hourhand.scheduler.runtime.light_future import then

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

PAGE_ROWS = 1_000
SAVES_PER_SWEEP = 1_000
"""Saves between two searches for expired rows, in stores that do not delete them by themselves."""
BATCH_MAX = 200
"""Most definitions in one request; further ones wait for the next."""
_PARTITION_DIGITS_MAX = 6


class DefinitionBook:
    """Finds and saves single definitions; used from any thread."""

    def __init__(self, store: DefinitionStore, partition_count: int, clock: Clock) -> None:
        self.store = store
        self.partition_count = partition_count
        self._clock = clock
        self._finding: dict[int, Batcher[DefinitionName, Definition | None]] = {}
        self._saving: dict[int, Batcher[Definition, None]] = {}
        self._saved: Counter[int] = Counter()

    def find(self, name: DefinitionName) -> "Future[Definition | None]":
        """Read a definition, an ended one too; None where there is no row."""
        partition = partition_of(name.ordering_id, self.partition_count)
        return _batcher_of(self._finding, partition, self._find).ask(name)

    def save(self, definition: Definition) -> "Future[None]":
        """Write a definition; of two with one name the one with the higher offset stays."""
        partition = partition_of(definition.name.ordering_id, self.partition_count)
        return _batcher_of(self._saving, partition, self._save).ask(definition)

    def find_all(self, names: Iterable[DefinitionName]) -> "Future[list[Definition]]":
        """Read many definitions, ended ones too, one request for each partition."""
        by_partition: defaultdict[int, list[DefinitionName]] = defaultdict(list)
        for name in names:
            by_partition[partition_of(name.ordering_id, self.partition_count)].append(name)
        found = gather([self.store.find(each, asked) for each, asked in by_partition.items()])
        return then(found, lambda answers: [row for rows in answers for row in rows.values()])

    def save_all(self, definitions: Iterable[Definition]) -> "Future[None]":
        """Write many definitions, each name once, one request for each partition."""
        by_partition: defaultdict[int, list[Definition]] = defaultdict(list)
        for row in definitions:
            by_partition[partition_of(row.name.ordering_id, self.partition_count)].append(row)
        saved = gather([self._save(each, rows) for each, rows in by_partition.items()])
        return then(saved, lambda _saved: None)

    def page(self, kind: DefinitionKind, after: str | None, limit: int) -> "Future[DefinitionPage]":
        """Read about ``limit`` definitions of a kind that have not ended, after a page.

        One request of one partition: a page may be empty while there are more. ValueError if no
        page returned ``after``.
        """
        partition, inner = _split_cursor(after)
        if partition >= self.partition_count:
            ended: Future[DefinitionPage] = Future()
            ended.set_result(DefinitionPage([], None))
            return ended
        last = partition + 1 == self.partition_count

        def onwards(page: DefinitionPage) -> DefinitionPage:
            following = None if last else f"{partition + 1}~"
            if page.next_after is not None:
                following = f"{partition}~{page.next_after}"
            return DefinitionPage(page.definitions, following)

        return then(self.store.page(partition, kind, inner, limit), onwards)

    def all_of(self, kind: DefinitionKind) -> Iterator[Definition]:
        """Yield all definitions of a kind that have not ended, page by page; blocks."""
        after: str | None = None
        while True:
            page = answered(self.page(kind, after, PAGE_ROWS))
            yield from page.definitions
            after = page.next_after
            if after is None:
                return

    def _find(
        self, partition: int, names: Sequence[DefinitionName]
    ) -> "Future[Sequence[Definition | None]]":
        def answers(found: Mapping[DefinitionName, Definition]) -> Sequence[Definition | None]:
            return [found.get(name) for name in names]

        return then(self.store.find(partition, names), answers)

    def _save(self, partition: int, definitions: Sequence[Definition]) -> "Future[Sequence[None]]":
        # A store may apply two rows of one name in any order; only the last of them counts.
        last: dict[DefinitionName, Definition] = {}
        for each in definitions:
            if each.name not in last or last[each.name].offset <= each.offset:
                last[each.name] = each
        now_ms = self._clock.now_ms()
        saved = self.store.save(partition, tuple(last.values()), now_ms)
        self._saved[partition] += len(last)
        if self._saved[partition] >= SAVES_PER_SWEEP:
            self._saved[partition] = 0
            self.store.forget(partition, now_ms)
        return then(saved, lambda _saved: [None] * len(definitions))


def _batcher_of(
    batchers: dict[int, Batcher[Asked, Answer]],
    partition: int,
    send: "Callable[[int, Sequence[Asked]], Future[Sequence[Answer]]]",
) -> Batcher[Asked, Answer]:
    """Return the batcher of a partition, which is made at its first use."""
    batcher = batchers.get(partition)
    if batcher is None:
        # If two threads make one, both get the first.
        batcher = batchers.setdefault(partition, Batcher(partial(send, partition), BATCH_MAX))
    return batcher


def _split_cursor(after: str | None) -> tuple[int, str | None]:
    """Read the cursor of a listing; ValueError if no listing returned it."""
    if after is None:
        return 0, None
    number, _, inner = after.partition("~")
    plain = number.isascii() and number.isdigit() and len(number) <= _PARTITION_DIGITS_MAX
    if not plain or storable_text(inner) != inner:
        raise ValueError(f"{shown(after)} is not a cursor of a listing")
    return int(number), inner or None
