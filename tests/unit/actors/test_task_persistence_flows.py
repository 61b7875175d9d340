"""TaskPersistence where kinds have rules: what one flow leaves keeps no other waiting."""

import pytest

from hourhand.actors.loading import FLOW_PAGE_TASKS, SEARCH_PAGES
from hourhand.actors.messages import BandsChanged, LoadTasks, LowerCheckpoint, TasksLoaded
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.settings import TreeSettings, WatermarkSettings, WindowSettings
from hourhand.actors.model.window.band import BandName
from hourhand.actors.model.window.budget import PartitionBudget
from hourhand.actors.model.window.read_ahead import AHEAD_MS, BACKLOG_MIN_MS
from hourhand.actors.schedule_reader import ROWS_FOUND_FIRST
from tests.builders import NOW_MS
from tests.unit.actors.model.window.test_flow_queues import RULES, task
from tests.unit.actors.task_persistence_bench import INTERVAL_MS, LAG_MS, Bench

TASKS_MAX = 10
PAGE = 3
TICK_MS = WindowSettings().tick_ms
LATE_MS = -4_000
"""Behind the clock by less than what counts as a backlog of ordering ids."""
BIG = tuple(task(LATE_MS + number, tenant="big") for number in range(40))
SMALL = tuple(task(LATE_MS + 100 + number, tenant="small") for number in range(3))


class FlowBench(Bench):
    """A bench whose memory counts what was passed on, as the scheduler's queues do."""

    def __init__(
        self, *rows: StoredTask, page_tasks: int = PAGE, tasks_max: int = TASKS_MAX
    ) -> None:
        self.tasks_max = tasks_max
        settings = TreeSettings(
            window=WindowSettings(tasks_max=tasks_max, page_tasks=page_tasks),
            watermark=WatermarkSettings(interval_ms=INTERVAL_MS, lag_ms=LAG_MS),
        )
        super().__init__(settings=settings, flow_rules=RULES)
        self.rows = {row.key: row for row in rows}
        self.store(*rows)

    @property
    def slots(self) -> PartitionBudget:
        """Return what counts the tasks of flows."""
        return self.harness.siblings.budget

    def passed_on(self) -> list[TaskKey]:
        """Take what was passed on, and count it as waiting."""
        found = self.scheduled()
        for key in found:
            self.slots.wait_in(RULES.flow_of(self.rows[key]), 1, self.rows[key].size_bytes)
        return found

    def end(self, *rows: StoredTask) -> None:
        """Let tasks leave memory."""
        for row in rows:
            self.slots.wait_in(RULES.flow_of(row), -1, -row.size_bytes)

    def load_page(self, ahead_ms: int = 2_000, limit: int = PAGE) -> TasksLoaded:
        """Load once, as much as there is room for."""
        room = self.tasks_max - self.slots.flow_tasks
        self.load(ahead_ms, limit=max(1, min(limit, room)))
        return self.loaded()


def full_of_big(*rows: StoredTask) -> tuple[FlowBench, list[TaskKey]]:
    """Return a bench whose first flow has enough, and what was passed on."""
    bench = FlowBench(*BIG, *rows)
    found: list[TaskKey] = []
    while len(found) < TASKS_MAX // 2:
        assert not bench.load_page().held_up
        found += bench.passed_on()
    return bench, found


def searched(bench: FlowBench) -> list[TaskKey]:
    """Load until there is nothing more to look at; return what was passed on."""
    found: list[TaskKey] = []
    for _ in range(len(bench.rows)):
        made = len(bench.requests.made)
        held_up = bench.load_page().held_up
        if held_up and len(bench.requests.made) == made:
            return found
        found += bench.passed_on()
    raise AssertionError("it looks on and on")


def looks_to_small() -> int:
    """Return the look that finds what lies behind the rows of the first flow."""
    bench, _ = full_of_big(*SMALL)
    for look in range(1, len(bench.rows)):
        bench.load_page()
        if bench.passed_on():
            return look
    raise AssertionError("nothing was found")


def keys(*rows: StoredTask) -> list[TaskKey]:
    """Return their keys."""
    return [row.key for row in rows]


def test_p13_one_flow_alone_fills_half_of_the_window() -> None:
    """The first rows of it; nothing more of it is loaded while it has these."""
    bench, found = full_of_big()

    assert searched(bench) == [] and found == keys(*BIG[:5])


def test_rows_behind_those_of_a_flow_that_has_enough_are_loaded() -> None:
    """Within so many pages as lie before them."""
    bench, _ = full_of_big(*SMALL)

    assert searched(bench) == keys(*SMALL) and looks_to_small() <= 1 + len(BIG) // (
        SEARCH_PAGES * PAGE
    )


def test_rows_of_ids_that_leave_theirs_are_passed_by_their_keys() -> None:
    """Of each such id one row is read, and of the others all."""
    rows = tuple(task(LATE_MS + n, tenant="big", ordering_id=f"id-{n // 50}") for n in range(100))
    bench = FlowBench(*rows, *SMALL)
    for _ in range(TASKS_MAX):
        bench.load_page()
        if bench.passed_on() == []:
            break
    bench.requests.made.clear()

    found = searched(bench)

    looks = 1 + len(rows) // (SEARCH_PAGES * PAGE)
    assert found == keys(*SMALL)
    assert looks - 1 <= bench.requests.made.count("find_keys") <= looks + 1
    assert bench.requests.made.count("load_tasks") <= 1
    assert 1 <= bench.requests.made.count("find_tasks") <= 3


def test_further_rows_of_an_id_that_has_room_are_read_too() -> None:
    """All that is passed of it is in memory, in order (P4)."""
    many = tuple(task(LATE_MS + 100 + n, tenant="small", ordering_id="small") for n in range(3))
    rows = tuple(task(LATE_MS + n, tenant="big", ordering_id=f"id-{n // 50}") for n in range(100))
    bench = FlowBench(*rows, *many)

    found: list[TaskKey] = []
    for _ in range(len(rows)):
        bench.load_page()
        found += bench.passed_on()

    assert found == keys(*rows[:5], *many)


def test_rows_are_read_a_few_at_a_time_while_nobody_knows_how_large_they_are() -> None:
    """What is behind those is read next, and none is left out."""
    ids = ROWS_FOUND_FIRST + 1
    rows = tuple(
        task(LATE_MS + n, tenant="big", ordering_id=f"id-{n // 6}") for n in range(6 * ids)
    )
    others = tuple(task(LATE_MS + 1_000 + n, tenant=f"other-{n}") for n in range(4))
    bench = FlowBench(*rows, *others, page_tasks=60)

    found: list[TaskKey] = []
    for _ in range(20):
        bench.load_page()
        found += bench.passed_on()

    assert found == keys(*rows[:5], *others)


def test_the_look_behind_ends_a_little_ahead_of_the_clock() -> None:
    """Later rows are not missed yet, and nothing is read again and again."""
    later = task(AHEAD_MS + 500)
    bench, _ = full_of_big(later)
    assert searched(bench) == []
    bench.requests.made.clear()

    assert bench.load_page().held_up and bench.passed_on() == []
    assert not {"load_tasks", "find_keys"} & set(bench.requests.made)


@pytest.mark.parametrize(("first_ms", "waits"), [(LATE_MS, True), (1_000, False)])
def test_looks_pause_where_rows_are_late_and_not_before_they_are_due(
    first_ms: int, waits: bool
) -> None:
    """Others of a herd's time would wait for what is not passed when it falls due."""
    rows = tuple(task(first_ms + number, tenant="big") for number in range(40))
    small = task(first_ms + 100, tenant="small")
    bench = FlowBench(*rows, small)
    found: list[TaskKey] = []
    while len(found) < TASKS_MAX // 2:
        bench.load_page()
        found += bench.passed_on()

    paused: list[bool] = []
    while small.key not in found:
        paused.append(bench.load_page().held_up)
        found += bench.passed_on()

    assert len(paused) > 1 and paused[:-1] == [waits] * (len(paused) - 1)


def test_rows_that_were_left_are_loaded_in_order_when_their_flow_has_room() -> None:
    """And what was found behind them is not loaded again."""
    bench, found = full_of_big(*SMALL)
    searched(bench)

    bench.end(*BIG[:5], *SMALL)
    again: list[TaskKey] = []
    while len(again) < 5:
        assert not bench.load_page().held_up
        again += bench.passed_on()

    assert found + again == keys(*BIG[:10])


def test_what_a_flow_left_is_loaded_in_small_pages() -> None:
    """What other flows write waits for each of them; nobody waits for the first rows."""
    page = 2 * FLOW_PAGE_TASKS
    rows = tuple(task(LATE_MS + number, tenant="big") for number in range(3 * page))
    bench = FlowBench(*rows, page_tasks=page, tasks_max=2 * page)
    limits: list[int] = []

    def noted(limit: int) -> int:
        limits.append(limit)
        return limit

    bench.harness.data.page_limit = noted

    while not bench.load_page(limit=page).held_up:
        bench.passed_on()
    first = limits.pop(0)
    bench.end(*rows[:page])
    limits.clear()
    bench.load_page(limit=page)

    assert first == page and limits == [FLOW_PAGE_TASKS]


def test_p4_a_later_task_of_an_id_waits_behind_one_that_was_left() -> None:
    """Whatever its flow is: an id runs its tasks in order."""
    row = BIG[-1]
    other = task(LATE_MS + 200, tenant="small", ordering_id=row.key.ordering_id)
    bench, _ = full_of_big(*SMALL, other)
    found = searched(bench)
    written = task(LATE_MS + 300, tenant="other", ordering_id=row.key.ordering_id)
    free = task(LATE_MS + 301, tenant="other")

    bench.persist(written, free)

    assert found == keys(*SMALL) and bench.scheduled() == keys(free)


def test_p8_the_watermark_stays_behind_what_was_left() -> None:
    """A restart loads it, though what lies behind it ran."""
    bench, _ = full_of_big(*SMALL)
    searched(bench)
    bench.harness.advance(10 * LAG_MS)
    bench.harness.advance(INTERVAL_MS)

    bench.advance_watermark()

    assert bench.saved().watermark_ms <= BIG[5].key.scheduled_ms


def test_p8_what_leaves_memory_is_found_again() -> None:
    """Also where it was found behind what was left."""
    bench, _ = full_of_big(*SMALL)
    searched(bench)

    bench.tell(LowerCheckpoint(SMALL[0].key))
    bench.end(*SMALL[1:])

    assert searched(bench) == keys(*SMALL[1:])


def test_p8_what_leaves_memory_while_a_page_is_read_is_found_again() -> None:
    """The page ends there; what it brings beyond is loaded once more."""
    bench, _ = full_of_big(*SMALL)
    for _ in range(looks_to_small() - 1):
        bench.load_page()
    bench.requests.hold("load_tasks")

    bench.tell(LoadTasks(NOW_MS + 2_000, PAGE))
    bench.tell(LowerCheckpoint(SMALL[0].key))
    while bench.requests.count("load_tasks"):
        bench.serve("load_tasks")
        bench.answer_statuses()
    bench.requests.hold_nothing()

    assert bench.passed_on() + searched(bench) == keys(*SMALL)


def test_ids_of_left_rows_are_counted_and_bounded() -> None:
    """They are part of what the partition holds (P13)."""
    bench, _ = full_of_big(*SMALL)
    searched(bench)

    budget = bench.harness.siblings.budget
    assert budget.ids_bytes >= 30 * 150
    assert budget.used_bytes >= budget.ids_bytes


def test_ids_that_are_on_time_are_found_beside_it() -> None:
    """The search for ids that have a backlog goes on as without flows."""
    late = tuple(task(number - 20_000, tenant="big") for number in range(40))
    bench = FlowBench(*late)
    searched(bench)
    bench.tell(LoadTasks(NOW_MS + 5_000, PAGE, band=BandName.ON_TIME))
    bench.answer_statuses()
    bench.passed_on()
    on_time, behind = task(1_000), task(1_000, ordering_id=late[-1].key.ordering_id)
    bench.persist(on_time, behind)

    assert bench.scheduler.has(BandsChanged)
    assert bench.scheduled() == keys(on_time)


def test_other_flows_are_loaded_while_ids_that_have_a_backlog_are_looked_for() -> None:
    """That takes the longer the more is overdue; the ids of what is loaded have one too (P4)."""
    more = tuple(task(LATE_MS + 200 + number, tenant="big") for number in range(20))
    bench, _ = full_of_big(*SMALL[:2], *more)
    bench.advance_watermark()
    bench.harness.data.page_limit = lambda limit: min(limit, PAGE)
    bench.requests.hold("find_keys")

    found: list[TaskKey] = []
    while len(found) < 2:
        assert not bench.scheduler.has(BandsChanged), "it waited until all ids were known"
        bench.tell(LoadTasks(NOW_MS, PAGE))
        while not bench.harness.controller.has(TasksLoaded):
            bench.serve("find_keys")
            bench.answer_statuses()
        bench.loaded()
        found += bench.passed_on()
    pages = 0
    while not bench.scheduler.has(BandsChanged):
        assert not bench.requests.count("find_keys"), "a page is read a tick"
        bench.harness.advance(TICK_MS)
        bench.serve("find_keys")
        pages += 1
    later, other = (task(1_000, ordering_id=each) for each in (found[0].ordering_id, "other"))
    bench.tell(LoadTasks(NOW_MS + 2 * BACKLOG_MIN_MS, PAGE, band=BandName.ON_TIME))
    bench.answer_statuses()
    bench.persist(later, other)

    assert found == keys(*SMALL[:2]) and bench.scheduled() == keys(other)
    assert pages > 1


def test_ids_are_looked_for_without_a_pause_when_the_flow_that_left_rows_has_room() -> None:
    """Its next rows are loaded when all ids are known: it would run out of tasks."""
    bench, _ = full_of_big()
    bench.advance_watermark()
    bench.harness.data.page_limit = lambda limit: min(limit, PAGE)
    bench.requests.hold("find_keys")
    bench.tell(LoadTasks(NOW_MS, PAGE))
    for _ in range(2):
        bench.serve("find_keys")
        bench.answer_statuses()
    waits = not bench.requests.count("find_keys")

    bench.end(*BIG[:5])
    bench.harness.advance(TICK_MS)
    while bench.requests.count("find_keys"):
        bench.serve("find_keys")

    assert waits and bench.scheduler.has(BandsChanged)
