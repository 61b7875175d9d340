"""Single questions about definitions, asked of the store in groups."""

from concurrent.futures import Future
from typing import Any

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.task.definition import Definition, DefinitionKind, DefinitionName
from hourhand.actors.model.values.errors import StoreUnavailable
from hourhand.scheduler.adapters.memory.delivery import Request
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.services.system.definition_book import SAVES_PER_SWEEP, DefinitionBook


def a_row(number: int, offset: int = 0, rule: bytes = b"{}") -> Definition:
    """Return a timer's definition."""
    return Definition(DefinitionName(DefinitionKind.TIMER, f"t-{number}"), offset, rule)


class Bench:
    """A book over a store that answers when it is told to."""

    def __init__(self) -> None:
        self.requests: list[Request[object]] = []
        self.data = MemoryStores()
        store = open_memory_stores(self.data, self.requests.append).definitions
        self.clock = VirtualClock(1_000_000)
        self.book = DefinitionBook(store, 1, self.clock)

    def serve(self) -> None:
        """Answer one request."""
        self.requests.pop(0)()


def test_what_is_asked_meanwhile_goes_together() -> None:
    """One request is under way; all others wait for the next one."""
    bench = Bench()
    saved: list[Future[Any]] = [bench.book.save(a_row(number)) for number in range(50)]
    found: list[Future[Any]] = [bench.book.find(a_row(number).name) for number in range(50)]
    assert len(bench.requests) == 2

    served = 0
    while bench.requests:
        bench.serve()
        served += 1
    assert served == 4
    assert all(each.done() for each in [*saved, *found])


def test_answers_reach_who_asked() -> None:
    """In any order, absent ones too."""
    bench = Bench()
    bench.book.save(a_row(1, rule=b"1"))
    bench.serve()
    found = [bench.book.find(a_row(number).name) for number in (2, 1, 3, 1)]
    while bench.requests:
        bench.serve()

    rules = [None if (row := each.result(0)) is None else row.rule for each in found]
    assert rules == [None, b"1", None, b"1"]


def test_of_two_versions_in_one_group_the_higher_offset_stands() -> None:
    """Whichever was asked for first."""
    bench = Bench()
    bench.book.save(a_row(0))
    for offset in (5, 9, 7):
        bench.book.save(a_row(1, offset, b"%d" % offset))
    while bench.requests:
        bench.serve()

    assert bench.data.definitions[0][a_row(1).name].rule == b"9"


def test_a_failure_fails_its_group_and_the_next_one_goes_on() -> None:
    """Nobody waits for ever."""
    bench = Bench()
    failed = bench.book.find(a_row(1).name)
    later: Future[Definition | None] = bench.book.find(a_row(2).name)
    bench.requests.pop(0).fail(StoreUnavailable("away"))
    assert isinstance(failed.exception(0), StoreUnavailable)

    bench.serve()
    assert later.result(0) is None


def test_what_has_expired_is_forgotten_now_and_then() -> None:
    """By a store that does not forget by itself."""
    bench = Bench()
    bench.book.save(Definition(a_row(0).name, 1, b"", None, 999_000))
    for number in range(1, SAVES_PER_SWEEP):
        bench.book.save(a_row(number))
    while bench.requests:
        bench.serve()

    rows = bench.data.definitions[0]
    assert a_row(0).name not in rows
    assert len(rows) == SAVES_PER_SWEEP - 1
