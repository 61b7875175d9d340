"""Priority and fair shares over a backlog that lies in the store."""

from collections import Counter, defaultdict

import msgspec

from hourhand.actors.loading import SEARCH_PAGES
from hourhand.actors.model.operations.events import PartitionAssigned
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask
from tests.simulation.history import Happened, RowStored
from tests.simulation.hold_invariants import HARMLESS
from tests.simulation.judged import Complaints, Run
from tests.simulation.task_maker import own_priority_of

TAKES_MS = 10_000.0
"""Time beyond the looks at the store: until there is room, and until a slot is free."""


def small_flows_do_not_wait_for_a_large_one(run: Run) -> Complaints:
    """Where nothing disturbs the installation, a tenant with few tasks waits for no more than the
    looks that it takes to read past the rows of one with many.
    """
    if not all(each.what.startswith(HARMLESS) for each in run.history.of(Happened)):
        return
    window = run.tree.window
    stored = {row.key: row.at_ms for row in run.history.of(RowStored)}
    assigned: dict[int, float] = defaultdict(float)
    for each in run.noted():
        if isinstance(each.event, PartitionAssigned):
            assigned[each.event.partition] = each.at_ms
    for partition in range(run.partitions):
        tenant_of = dict(_tenants(run, partition))
        rows = Counter(tenant_of.values())
        if not rows or max(rows.values()) <= 2 * window.tasks_max:
            continue
        looks = 1 + len(tenant_of) // (SEARCH_PAGES * window.page_tasks)
        bound_ms = looks * window.tick_ms + TAKES_MS + 2 * run.clocks_apart_ms
        for start in run.started:
            tenant = tenant_of.get(start.key)
            if tenant is None or start.number > 1 or rows[tenant] > window.tasks_max // 4:
                continue
            due_ms = start.key.scheduled_ms - run.wall_at_start_ms
            waited_ms = start.at_ms - max(due_ms, stored[start.key], assigned[partition])
            if waited_ms > bound_ms * run.pace:
                yield f"{start.key} of {tenant} waited {waited_ms:.0f} ms, {bound_ms:.0f} allowed"


def tasks_keep_their_priority(run: Run) -> Complaints:
    """On any way of a task, its attempt has the priority that it was scheduled with."""
    for start in run.started:
        if start.tenant and start.priority != (own := own_priority_of(start.key)):
            yield f"{start.key} started with the priority {start.priority}, and was given {own}"


def _tenants(run: Run, partition: int) -> list[tuple[TaskKey, str]]:
    tasks = [each for _, each in run.truth.entries(partition) if isinstance(each, StoredTask)]
    data = [msgspec.json.decode(task.data) for task in tasks]
    return [(t.key, d["tenant"]) for t, d in zip(tasks, data, strict=True) if "tenant" in d]
