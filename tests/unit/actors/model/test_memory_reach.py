"""How far memory reaches for each ordering id: against a model of a store, with any history."""

import random
from collections import defaultdict

import pytest

from actors.model.backlog import BACKLOG_MIN_MS, backlog_behind
from actors.model.backlog_search import FlowRoom, refill_share
from actors.model.budget import NodeBudget
from actors.model.key import TaskKey, first_key_at
from actors.model.memory_reach import MemoryReach
from actors.model.ownership import Watermark
from actors.model.task import StoredTask
from tests.builders import NOW_MS
from tests.unit.actors.model.test_flow_queues import RULES, task

TASKS_MAX = 12
PARTITION = 3
FIRST_MS = -1_000
END = first_key_at(NOW_MS + 10)


class Model:
    """A partition's rows and what of them waits in memory, beside the reach that is tried."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.reach = MemoryReach(first_key_at(NOW_MS + FIRST_MS), RULES, PARTITION)
        self.rows: dict[TaskKey, StoredTask] = {}
        self.memory: set[TaskKey] = set()
        self.late: set[TaskKey] = set()
        """Overdue and in memory, though it does not reach them: no order is promised for these."""

    def write(self) -> None:
        """Store a row, and pass it on where memory reaches."""
        rng = self.rng
        due_ms = rng.randrange(FIRST_MS + 1, 0)
        tenant = rng.choice(("big", "big", "big", "small", "other"))
        row = task(due_ms, tenant=tenant, ordering_id=f"id-{rng.randrange(20)}")
        if row.key not in self.rows:
            self.rows[row.key] = row
            backlog = self.reach.backlog
            if backlog is not None and not backlog.is_known:
                backlog.add_written([row])
            self.pass_on([row])

    def pass_on(self, tasks: list[StoredTask]) -> None:
        """Take what belongs in memory."""
        punctual, inside, _ = self.reach.split(tasks)
        self.memory |= {each.key for each in (*punctual, *inside)}

    def room(self) -> FlowRoom:
        """Return what flows may have."""
        slots = NodeBudget().begin(0, has_flows=True)
        for key in self.memory:
            slots.wait_in(RULES.flow_of(self.rows[key]), 1, self.rows[key].held_bytes)
        return FlowRoom(RULES, slots, TASKS_MAX, 1_000_000, refill_share(PARTITION))

    def load(self, page: int = 6) -> None:
        """Load a page, the way TaskPersistence does; memory may be lowered meanwhile."""
        room, reach = self.room(), self.reach
        if room.is_full:
            return
        is_behind = reach.search.is_held_up(room)
        if reach.backlog is not None and not reach.backlog.is_known:
            is_behind = len(reach.search) > 0
            if not is_behind:
                return
        after = reach.search.checkpoint.begin_load() if is_behind else reach.begin_load()
        found = sorted(key for key in self.rows if key > after)[:page]
        reached = found[-1] if len(found) == page else END
        tasks = [self.rows[key] for key in found]
        if self.rng.random() < 0.2:
            self.shrink()
        if is_behind:
            taken = reach.take_behind(tasks, max(after, reached), self.room())
        else:
            taken = reach.take_page(tasks, max(after, reached), self.room())
        self.pass_on(list(taken))
        if reach.is_backlog_over:
            reach.backlog = None

    def load_punctual(self) -> None:
        """Load of punctual ids what is next."""
        backlog = self.reach.backlog
        if backlog is not None and backlog.is_known:
            after = backlog.checkpoint.begin_load()
            found = sorted(key for key in self.rows if key > after)[:4]
            backlog.checkpoint.end_load(found[-1] if len(found) == 4 else max(after, END))
            self.pass_on([self.rows[k] for k in found if backlog.is_punctual(k.ordering_id)])

    def look_for_backlog(self) -> None:
        """Begin to look for the ids that have something up to some time."""
        reach = self.reach
        now_ms = NOW_MS + self.rng.randrange(FIRST_MS // 2, 0) + BACKLOG_MIN_MS
        if reach.backlog is None and reach.checkpoint.key < END:
            mark = Watermark(NOW_MS + FIRST_MS, 0)
            searched = reach.search.checkpoint.key
            reach.backlog = backlog_behind(mark, reach.checkpoint.key, now_ms, searched)

    def find_ids(self) -> None:
        """Read a page of them; with the last one the others are punctual."""
        backlog = self.reach.backlog
        if backlog is not None and not backlog.is_known:
            end = first_key_at(backlog.end_ms)
            found = sorted(key for key in self.rows if backlog.searched < key < end)[:5]
            next_after = found[-1] if len(found) == 5 else None
            backlog.is_known = backlog.add_found([key.ordering_id for key in found], next_after)

    def shrink(self) -> None:
        """Leave the latest to the store: of punctual ids where there is nothing else."""
        backlog = self.reach.backlog
        punctual = {
            key
            for key in self.memory
            if backlog is not None and backlog.is_punctual(key.ordering_id)
        }
        others = sorted(self.memory - punctual)
        dropped = others[-self.rng.randrange(1, 4) :]
        is_punctual = not others and bool(punctual)
        if is_punctual:
            dropped = sorted(punctual)[-self.rng.randrange(1, 4) :]
        if dropped:
            self.memory -= set(dropped)
            last = max(
                (k for k in (punctual if is_punctual else others) if k < dropped[0]), default=None
            )
            lowered = last or TaskKey(dropped[0].scheduled_ms - 1, "", "")
            now_ms = NOW_MS + BACKLOG_MIN_MS - self.rng.randrange(1_000)
            if self.reach.lower(lowered, now_ms, punctual=is_punctual):
                self.reach.backlog = None
                self.late |= {key for key in self.memory if key > self.reach.search.checkpoint.key}

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
        punctual, inside, outside = self.reach.split(rows)
        assert {each.key for each in (*punctual, *inside)} <= self.memory
        of_id = defaultdict(list)
        for key in sorted(self.rows):
            of_id[key.ordering_id].append(key in self.memory)
        late = {key.ordering_id for key in self.late & self.memory}
        for ordering_id, has in of_id.items():
            if ordering_id in late:
                continue
            assert has == sorted(has, reverse=True), f"{ordering_id} lacks an earlier task"
        assert all(key > self.reach.checkpoint.key for key in (each.key for each in outside))
        assert len(self.reach.search) == 0 or self.reach.search.size_bytes > 0


@pytest.mark.parametrize("has_backlog", [False, True])
def test_p4_p8_memory_has_the_first_tasks_of_each_id_and_all_that_it_reaches(
    *, has_backlog: bool
) -> None:
    """Whatever is written, loaded, left, closed, and let go of."""
    for seed in range(60):
        model = Model(random.Random(seed))
        steps = [model.write, model.write, model.load, model.finish, model.finish, model.shrink]
        if has_backlog:
            steps += [model.look_for_backlog, model.find_ids, model.load_punctual]
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
