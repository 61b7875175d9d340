"""How far memory reaches for each ordering id: against a model of a store, with any history."""

import random
from collections import defaultdict

import pytest

from hourhand.actors.model.flow.flow import FlowRules
from hourhand.actors.model.operations.ownership import Straggler, Watermark
from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.window.band import BandName
from hourhand.actors.model.window.budget import NodeBudget
from hourhand.actors.model.window.flow_quota import FlowQuota, refill_share
from hourhand.actors.model.window.read_ahead import (
    AHEAD_MS,
    BACKLOG_MIN_MS,
    ORDERING_ID_BYTES,
    UNREAD_SHARE,
    ReadAhead,
)
from tests.builders import NOW_MS, a_stored_task
from tests.unit.actors.model.window.test_flow_queues import RULES, task
from tests.unit.actors.model.window.test_flow_quota import quota

TASKS_MAX = 12
PARTITION = 3
FIRST_MS = -1_000
END = first_key_at(NOW_MS + 10)


class Model:
    """A partition's rows and what of them waits in memory, beside the reach that is tried."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.reach = ReadAhead(first_key_at(NOW_MS + FIRST_MS), RULES, PARTITION)
        self.rows: dict[TaskKey, StoredTask] = {}
        self.memory: set[TaskKey] = set()
        self.late: set[TaskKey] = set()
        self.read_again = 0
        """Overdue and in memory, though it does not reach them: no order is promised for these."""

    def write(self) -> None:
        """Store a row, and pass it on where memory reaches."""
        rng = self.rng
        due_ms = rng.randrange(FIRST_MS + 1, 0)
        tenant = rng.choice(("big", "big", "big", "small", "other"))
        row = task(due_ms, tenant=tenant, ordering_id=f"id-{rng.randrange(20)}")
        if row.key not in self.rows:
            self.rows[row.key] = row
            self.reach.add_written([row])
            self.pass_on([row])

    def pass_on(self, tasks: list[StoredTask]) -> None:
        """Take what belongs in memory."""
        on_time, inside, _ = self.reach.split(tasks)
        self.memory |= {each.key for each in (*on_time, *inside)}

    def quota(self) -> FlowQuota:
        """Return what flows may have."""
        slots = NodeBudget().begin(0, has_flows=True)
        for key in self.memory:
            slots.wait_in(RULES.flow_of(self.rows[key]), 1, self.rows[key].size_bytes)
        return FlowQuota(RULES, slots, TASKS_MAX, 1_000_000, refill_share(PARTITION))

    def load(self, page: int = 6) -> None:
        """Load a page, the way TaskPersistence does; memory may be lowered meanwhile."""
        quota, reach = self.quota(), self.reach
        if quota.is_full:
            return
        is_behind = reach.is_held_up(quota)
        if reach.backlog is not None and not reach.backlog.is_known:
            is_behind = reach.has_left
            if not is_behind:
                return
        if is_behind and (after_left := reach.look_again_after(quota)) is not None:
            self.load_left(after_left, page)
            return
        after = reach.cursor.begin_load() if is_behind else reach.begin_load()
        found = sorted(key for key in self.rows if key > after)[:page]
        reached = found[-1] if len(found) == page else END
        tasks = [self.rows[key] for key in found]
        if self.rng.random() < 0.2:
            self.shrink()
        if is_behind:
            taken = reach.take_behind(tasks, max(after, reached), self.quota())
        else:
            taken = reach.take_page(tasks, max(after, reached), self.quota())
        self.pass_on(list(taken))
        if reach.is_backlog_over:
            reach.end_backlog()

    def load_left(self, after: TaskKey, page: int) -> None:
        """Load what flows have left before the cursor; memory may be lowered meanwhile."""
        reach = self.reach
        found = sorted(key for key in self.rows if after < key <= reach.cursor.key)[:page]
        reached = found[-1] if len(found) == page else reach.cursor.key
        tasks = [self.rows[key] for key in reach.left_of(found, after)]
        if self.rng.random() < 0.2:
            self.shrink()
        self.pass_on(list(reach.take_left(tasks, after, reached, self.quota())))
        self.read_again += 1

    def load_on_time(self) -> None:
        """Load of ids on time what is next."""
        backlog = self.reach.backlog
        if backlog is not None and backlog.is_known:
            after = backlog.on_time.begin_load()
            found = sorted(key for key in self.rows if key > after)[:4]
            backlog.on_time.end_load(found[-1] if len(found) == 4 else max(after, END))
            self.pass_on([self.rows[k] for k in found if self.reach.is_on_time(k.ordering_id)])

    def look_for_backlog(self) -> None:
        """Begin to look for the ids that have something up to some time."""
        reach = self.reach
        now_ms = NOW_MS + self.rng.randrange(FIRST_MS // 2, 0) + BACKLOG_MIN_MS
        if reach.backlog is None and reach.checkpoint.key < END:
            reach.look_for_backlog(Watermark(NOW_MS + FIRST_MS, 0), now_ms)

    def find_ids(self) -> None:
        """Read a page of them; with the last one the others are on time."""
        backlog = self.reach.backlog
        if backlog is not None and not backlog.is_known:
            end = first_key_at(backlog.end_ms)
            found = sorted(key for key in self.rows if backlog.searched < key < end)[:5]
            next_after = found[-1] if len(found) == 5 else None
            backlog.is_known = self.reach.add_found([key.ordering_id for key in found], next_after)

    def shrink(self) -> None:
        """Leave the latest to the store: of ids on time where there is nothing else."""
        on_time = {key for key in self.memory if self.reach.is_on_time(key.ordering_id)}
        others = sorted(self.memory - on_time)
        dropped = others[-self.rng.randrange(1, 4) :]
        is_on_time = not others and bool(on_time)
        if is_on_time:
            dropped = sorted(on_time)[-self.rng.randrange(1, 4) :]
        if dropped:
            self.memory -= set(dropped)
            last = max(
                (k for k in (on_time if is_on_time else others) if k < dropped[0]), default=None
            )
            lowered = last or TaskKey(dropped[0].scheduled_ms - 1, "", "")
            now_ms = NOW_MS + BACKLOG_MIN_MS - self.rng.randrange(1_000)
            band = BandName.ON_TIME if is_on_time else BandName.ORDINARY
            if self.reach.lower(lowered, now_ms, band):
                self.reach.end_backlog()
                self.late |= {key for key in self.memory if key > self.reach.cursor.key}

    def finish(self) -> None:
        """Close the first task in memory of some id."""
        if self.memory:
            ordering_id = self.rng.choice(sorted(self.memory)).ordering_id
            first = min(key for key in self.memory if key.ordering_id == ordering_id)
            self.memory.remove(first)
            del self.rows[first]

    def check(self) -> None:
        """What memory reaches is in it, and of each id it has the first tasks (P4, P8)."""
        rows = list(self.rows.values())
        on_time, inside, outside = self.reach.split(rows)
        assert {each.key for each in (*on_time, *inside)} <= self.memory
        of_id = defaultdict(list)
        for key in sorted(self.rows):
            of_id[key.ordering_id].append(key in self.memory)
        late = {key.ordering_id for key in self.late & self.memory}
        for ordering_id, has in of_id.items():
            if ordering_id in late:
                continue
            assert has == sorted(has, reverse=True), f"{ordering_id} lacks an earlier task"
        assert all(key > self.reach.checkpoint.key for key in (each.key for each in outside))
        assert (len(self.reach) > 0) is (self.reach.size_bytes > 0)
        assert self.reach.has_left is any(self.reach._unread.values())


@pytest.mark.parametrize("has_backlog", [False, True])
def test_p4_p8_memory_has_the_first_tasks_of_each_id_and_all_that_it_reaches(
    *, has_backlog: bool
) -> None:
    """Whatever is written, loaded, left, closed, and let go of."""
    read_again = 0
    for seed in range(60):
        model = Model(random.Random(seed))
        steps = [model.write, model.write, model.load, model.finish, model.finish, model.shrink]
        if has_backlog:
            steps += [model.look_for_backlog, model.find_ids, model.load_on_time]
        for _ in range(120):
            model.rng.choice(steps)()
            model.check()

        for _ in range(1_000):
            if not model.rows:
                break
            model.find_ids()
            model.load()
            model.finish()
        model.check()
        assert not model.rows, f"seed {seed}: a row was never loaded"
        read_again += model.read_again
    assert read_again, "left rows were never read again"


# Ids that have a backlog.

OVERDUE_MS = NOW_MS - BACKLOG_MIN_MS


def behind(*ordering_ids: str, after_ms: int = 5, known: bool = True) -> ReadAhead:
    """Return one that found these ids and a straggler's, up to the present."""
    reach = ReadAhead(first_key_at(after_ms), FlowRules.NONE, PARTITION)
    backlog = reach.look_for_backlog(Watermark(5, 0, 0, (Straggler("held", 1),)), NOW_MS)
    assert backlog is not None
    assert reach.add_found(ordering_ids, None)
    backlog.is_known = known
    return reach


def due(ordering_id: str, after_end_ms: int = 0) -> StoredTask:
    """Return a task that is due about where the band of what is on time begins."""
    return a_stored_task(due_in_ms=after_end_ms - BACKLOG_MIN_MS, ordering_id=ordering_id)


@pytest.mark.parametrize(("less_ms", "is_behind"), [(0, False), (1, True)])
def test_a_backlog_begins_where_memory_is_far_behind_the_clock(
    less_ms: int, *, is_behind: bool
) -> None:
    """What is less late is on time."""
    reach = ReadAhead(first_key_at(OVERDUE_MS - less_ms), FlowRules.NONE, PARTITION)

    backlog = reach.look_for_backlog(Watermark(5, 0), NOW_MS)

    assert (backlog is not None) is is_behind
    if backlog is not None:
        assert (backlog.searched, backlog.end_ms) == (first_key_at(5), OVERDUE_MS)
        assert backlog.on_time.key == first_key_at(OVERDUE_MS)


def test_an_id_is_not_on_time_before_all_are_known() -> None:
    """And never, where it was found, or is a straggler's."""
    reach = behind("a", known=False)
    early = reach.is_on_time("b")
    assert reach.backlog is not None
    reach.backlog.is_known = True

    assert not early
    assert [reach.is_on_time(each) for each in ("held", "a", "b")] == [False, False, True]


def test_the_look_goes_on_behind_the_last_key_of_a_page() -> None:
    """Until there is no further one."""
    reach = behind(known=False)

    assert not reach.add_found(["a"], TaskKey(7, "a", ""))
    assert reach.backlog is not None and reach.backlog.searched == TaskKey(7, "a", "")


def test_a_row_that_is_written_while_ids_are_missing_adds_its_own() -> None:
    """It may be on a page that was read; one of the present has nothing before it."""
    reach = behind(known=False)

    added = reach.add_written([due("late", -1), due("on time")])
    assert reach.backlog is not None
    reach.backlog.is_known = True

    assert added and not reach.add_written([due("later", -1)])
    assert [reach.is_on_time(each) for each in ("late", "on time", "later")] == [False, True, True]


def test_p5_of_late_keys_only_those_are_known_that_a_load_came_by() -> None:
    """All others are in the part of the present, of which completions are loaded with the rows."""
    reach = behind("late", after_ms=due("new", -5).key.scheduled_ms)
    tasks = [due("new", -6), due("new", -4), due("new", -1), due("new"), due("late", -1)]

    assert reach.overdue_keys(tasks) == (tasks[1].key, tasks[2].key)


def test_p3_what_is_on_time_is_in_memory_as_far_as_its_band() -> None:
    """Nothing of the others is there because of it."""
    reach = behind("late")
    assert reach.backlog is not None
    reach.backlog.on_time.begin_load()
    reach.backlog.on_time.end_load(due("new", 5).key)
    tasks = [due("new", 5), due("new", 6), due("late", 5)]

    assert reach.split(tasks) == ([tasks[0]], [], tasks[1:])


def test_p13_each_id_counts_once_with_what_it_holds() -> None:
    """All of them may hold a part of what the partition may; none where nothing is unread."""
    reach = behind("late", "late", "later")

    size_bytes = 3 * ORDERING_ID_BYTES + len("held" + "late" + "later")
    assert (len(reach), reach.size_bytes) == (3, size_bytes)
    assert reach.fits(size_bytes * UNREAD_SHARE)
    assert not reach.fits(size_bytes * UNREAD_SHARE - 1)
    reach.end_backlog()
    assert (len(reach), reach.size_bytes) == (0, 0)


# Rows that a flow has left.

AFTER = first_key_at(NOW_MS - 1_000)
BIG = [task(number - 900, tenant="big") for number in range(10)]


def over_quota(*rows: StoredTask, tasks: int = 8) -> ReadAhead:
    """Return one that was offered rows with a quota for so many tasks."""
    reach = ReadAhead(AFTER, RULES, PARTITION)
    reach.begin_load()
    reach.take_page(rows, rows[-1].key, quota(tasks))
    return reach


def test_what_was_found_behind_left_rows_is_looked_at_for_its_ids() -> None:
    """Memory reaches so far for some ids that are not on time."""
    reach = over_quota(*BIG)
    reach.cursor.begin_load()
    reach.take_behind([], TaskKey(NOW_MS + 1_000, "found", "1"), quota(8))

    backlog = reach.look_for_backlog(Watermark(5, 0), NOW_MS + BACKLOG_MIN_MS)
    assert backlog is not None
    before = backlog.end_ms
    reach.cursor.begin_load()
    reach.take_behind([], TaskKey(NOW_MS + 2_000, "found", "2"), quota(8))

    assert (before, backlog.end_ms) == (NOW_MS + 1_001, NOW_MS + 2_001)
    assert backlog.on_time.key == first_key_at(NOW_MS + 2_001)


@pytest.mark.parametrize(("share", "free"), [(0.5, 12), (0.75, 8), (0.25, 24)])
def test_a_flow_goes_on_when_it_holds_a_share_of_what_is_free(share: float, free: int) -> None:
    """A row for each place that gets free would cost a page each."""
    reach = over_quota(*BIG)

    assert reach.is_held_up(quota(free - 1, big=6, share=share))
    assert not reach.is_held_up(quota(free, big=6, share=share))


def test_a_page_ends_where_there_is_no_room_for_anybody() -> None:
    """What lies behind is read later, and not left by its flow."""
    rows = [task(number - 900, tenant=f"of-{number}") for number in range(4)]

    reach = over_quota(*rows, tasks=2)

    assert reach.checkpoint.key == reach.cursor.key == rows[1].key
    assert not reach.has_left


def test_what_is_left_is_counted_until_all_before_is_read() -> None:
    """Each ordering id once."""
    reach = over_quota(*BIG)
    left_bytes, checkpoint = reach.size_bytes, reach.checkpoint.key

    reach.begin_load()
    taken = reach.take_page(BIG[4:], BIG[-1].key, quota(100))

    assert left_bytes == sum(ORDERING_ID_BYTES + len(row.key.ordering_id) for row in BIG[4:])
    assert checkpoint == BIG[3].key and taken == BIG[4:]
    assert (len(reach), reach.size_bytes, reach.has_left) == (0, 0, False)


def test_p8_what_left_memory_of_an_id_with_left_rows_does_not_count_as_found() -> None:
    """However far the cursor goes on behind it."""
    ours = task(-950, ordering_id="both")
    left = task(-850, tenant="big", ordering_id="both")
    reach = over_quota(ours, *BIG, left)
    before = [key <= reach.reached("both") for key in (ours.key, left.key)]

    reach.lower(first_key_at(ours.key.scheduled_ms), NOW_MS, BandName.ORDINARY)
    reach.cursor.begin_load()
    reach.take_behind([], left.key, quota(8))

    assert before == [True, False] and ours.key > reach.reached("both")


def test_p4_ids_with_a_backlog_stay_behind_when_all_that_was_left_is_read() -> None:
    """Behind the cursor they may have more, though a flow has left nothing any more."""
    reach = over_quota(*BIG)
    backlog = reach.look_for_backlog(Watermark(5, 0), NOW_MS + BACKLOG_MIN_MS)
    assert backlog is not None

    reach.begin_load()
    reach.take_page(BIG[4:], BIG[-1].key, quota(100))
    assert reach.add_found([], None)
    backlog.is_known = True

    assert not reach.has_left and not reach.is_on_time(BIG[4].key.ordering_id)
    assert reach.is_on_time(BIG[3].key.ordering_id)


def test_p8_the_cursor_stays_before_the_end_of_what_is_on_time() -> None:
    """Or rows behind it would count as found when the backlog is over, and nobody has them."""
    reach = over_quota(*BIG)
    backlog = reach.look_for_backlog(Watermark(5, 0), NOW_MS + BACKLOG_MIN_MS)
    assert backlog is not None
    assert reach.add_found([row.key.ordering_id for row in BIG], None)
    backlog.is_known = True
    behind = [task(-5, tenant="small"), task(5, tenant="small"), task(9, tenant="small")]

    reach.cursor.begin_load()
    taken = reach.take_behind(behind, behind[-1].key, quota(8))

    assert not taken and reach.cursor.key == backlog.on_time.key
    assert behind[1].key > reach.reached(behind[1].key.ordering_id)


def test_p13_it_goes_no_further_than_ids_may_be_kept() -> None:
    """Nor where only a little has fallen due since."""
    reach = over_quota(*BIG)
    enough, before_ms = UNREAD_SHARE * (reach.size_bytes + 1), NOW_MS + AHEAD_MS

    assert reach.may_go_on(before_ms, enough)
    assert not reach.may_go_on(before_ms, UNREAD_SHARE * reach.size_bytes)
    assert not reach.may_go_on(BIG[-1].key.scheduled_ms + AHEAD_MS // 2, enough)


MIDDLE = [task(number - 800, tenant="middle", ordering_id=f"m-{number}") for number in range(6)]


def held_up() -> ReadAhead:
    """Return one where a large flow left the first row, and one of middle size left others."""
    rows = [*BIG, *MIDDLE]
    reach = ReadAhead(AFTER, RULES, PARTITION)
    reach.begin_load()
    reach.take_page(rows, rows[-1].key, quota(6, big=6, middle=2))
    assert reach.is_held_up(quota(6, big=6, middle=6))
    return reach


def test_p7_a_flow_that_has_room_again_does_not_wait_for_a_larger_one() -> None:
    """The rows that it left are read although those of the larger flow, before them, stay."""
    reach = held_up()
    crowded = reach.look_again_after(quota(6, big=6, middle=6))

    after = reach.look_again_after(quota(30, big=60, middle=0))
    assert crowded is None and after is not None
    left = reach.left_of([each.key for each in (*BIG, *MIDDLE)], after)
    tasks = [each for each in MIDDLE if each.key in left]
    taken = reach.take_left(tasks, after, MIDDLE[-1].key, quota(30, big=60))

    assert tasks and list(taken) == tasks
    assert reach.split(MIDDLE)[1] == MIDDLE, "all of it is in memory"
    assert reach.look_again_after(quota(30, big=60)) is None
    assert reach.is_held_up(quota(30, big=60))


def test_what_is_left_once_more_is_offered_from_there_on() -> None:
    """Nothing before it is read another time."""
    reach = held_up()
    after = reach.look_again_after(quota(30, big=60))
    assert after is not None
    left = reach.left_of([each.key for each in MIDDLE], after)
    tasks = [each for each in MIDDLE if each.key in left]
    taken = reach.take_left(tasks, after, MIDDLE[-1].key, quota(5, big=60, middle=2))

    assert 0 < len(taken) < len(tasks)
    assert reach.look_again_after(quota(30, big=60)) == taken[-1].key
    assert reach.left_of([each.key for each in tasks], taken[-1].key) == [
        each.key for each in tasks[len(taken) :]
    ]


def test_no_row_is_offered_again_where_everybody_is_over_quota() -> None:
    """A page that is full would be read for nothing."""
    assert held_up().look_again_after(quota(0, big=60)) is None


def test_a_page_of_left_rows_may_end_before_the_cursor() -> None:
    """What lies behind it is offered by the next one."""
    reach = held_up()
    after = reach.look_again_after(quota(30, big=60))
    assert after is not None
    left = [each for each in MIDDLE if reach.left_of([each.key], after)]
    taken = reach.take_left(left[:1], after, left[0].key, quota(30, big=60))

    rest = [each.key for each in left[1:]]
    assert list(taken) == left[:1] and rest
    assert reach.look_again_after(quota(30, big=60)) == left[0].key
    assert reach.left_of(rest, left[0].key) == rest


def test_p4_an_id_with_an_earlier_unread_row_is_not_offered_again() -> None:
    """Its first row is the larger flow's, which stays."""
    later = task(-700, tenant="middle", ordering_id=BIG[9].key.ordering_id)
    rows = [*BIG, *MIDDLE, later]
    reach = ReadAhead(AFTER, RULES, PARTITION)
    reach.begin_load()
    reach.take_page(rows, rows[-1].key, quota(6, big=6, middle=2))
    after = reach.look_again_after(quota(30, big=60))
    assert after is not None and BIG[9].key <= after

    left = reach.left_of([MIDDLE[-1].key, later.key], after)

    assert left == [MIDDLE[-1].key]
