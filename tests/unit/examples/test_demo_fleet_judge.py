"""The fleet demonstration's judge: a good run passes, and each planted fault fails its check."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from examples.demo_cluster.executor import micros
from examples.demo_fleet.executor import SECRET
from examples.demo_fleet.judge import judge
from examples.demo_fleet.play import Evidence
from examples.demo_fleet.shop import Entry, Fate, Order, make_orders
from examples.demo_stage.topic import Found
from hourhand.actors.model.task.codec import encode_task
from hourhand.actors.model.task.sealed import SealedData, SealedMembers, SealingStep
from hourhand.scheduler.demo.audit import Run

FIRST, SECOND, AGAIN = 1, 2, 3
STARTS = datetime(2030, 1, 1, tzinfo=UTC)


def _run(order: Order) -> Run:
    due_us = micros(order.due)
    pid = (FIRST, SECOND)[order.number % 2]
    return Run(
        task_id=order.task_id,
        ordering_id=order.customer,
        due_us=due_us,
        attempt=1,
        fence=1,
        pid=pid,
        started_us=due_us,
        ended_us=due_us + 1,
        succeeded=True,
    )


def _found(order: Order, entry: Entry, offset: int) -> Found:
    if entry.is_cancellation:
        value = json.dumps({"uniquenessKey": entry.task_id, "command": "cancel"})
    else:
        envelope = SealedData([SealingStep("aes-gcm", "demo")], "")
        sealed = order.task().model_copy(update={"data": SealedMembers({}, envelope)})
        value = encode_task(sealed).decode()
    return Found(0, offset, order.customer, value, {})


@pytest.fixture
def good() -> Evidence:
    """A run of which every check holds."""
    orders = make_orders(300, STARTS, 30)
    places = [Entry(each.task_id, False) for each in orders if each.fate != "rolled back"]
    cancels = [Entry(each.task_id, True) for each in orders if each.fate == "cancelled"]
    journal = [*places, *cancels]
    by_id = {each.task_id: each for each in orders}
    runs = [_run(o) for o in orders if o.fate in {"kept", "cancellation rolled back"}]
    last = replace(runs[-1], pid=AGAIN)
    killed_us = runs[-2].started_us
    return Evidence(
        orders=orders,
        committed_orders={each.number for each in orders if each.fate != "rolled back"},
        journal=journal,
        waiting_at_restarts=[30, 40],
        rows_left=0,
        runs=[*(replace(run, pid=SECOND) if run is runs[-2] else run for run in runs[:-1]), last],
        killed={FIRST: killed_us},
        records=[_found(by_id[e.task_id], e, offset) for offset, e in enumerate(journal)],
        dead_letters=[],
        restarted=True,
        stop_codes=[0, 0],
        readable_rows=0,
        readable_store=0,
    )


def test_a_good_run_passes_every_check(good: Evidence) -> None:
    """Also where the mover has sent records again."""
    again = replace(good, records=[*good.records, good.records[-1]])

    assert [check.what for check in judge(good) if not check.holds] == []
    assert [check.what for check in judge(again) if not check.holds] == []


def _first(evidence: Evidence, fate: Fate) -> Order:
    return next(order for order in evidence.orders if order.fate == fate)


def _without(evidence: Evidence, fate: Fate) -> Evidence:
    task_id = _first(evidence, fate).task_id
    return replace(evidence, runs=[run for run in evidence.runs if run.task_id != task_id])


def _ran(evidence: Evidence, fate: Fate) -> Evidence:
    return replace(evidence, runs=[*evidence.runs, _run(_first(evidence, fate))])


def _moved(evidence: Evidence, fate: Fate) -> Evidence:
    order = _first(evidence, fate)
    record = _found(order, Entry(order.task_id, False), 10**6)
    return replace(evidence, records=[*evidence.records, record])


def _swapped(evidence: Evidence) -> Evidence:
    """Move the first record that its customer has another one behind to the end."""
    kept = {order.task_id for order in evidence.orders if order.fate == "kept"}
    first = next(r for r in evidence.records if json.loads(r.value)["uniquenessKey"] in kept)
    others = [record for record in evidence.records if record is not first]
    return replace(evidence, records=[*others, first])


def _unsealed(evidence: Evidence) -> Evidence:
    record = replace(
        evidence.records[0],
        value=json.dumps(
            {
                "uniquenessKey": json.loads(evidence.records[0].value)["uniquenessKey"],
                "taskData": {"card": SECRET},
            }
        ),
    )
    return replace(evidence, records=[record, *evidence.records[1:]])


DAMAGES: dict[str, tuple[Callable[[Evidence], Evidence], str]] = {
    "lost": (lambda e: _without(e, "kept"), "committed: the task ran"),
    "rolled back and run": (lambda e: _ran(e, "rolled back"), "rolled back: the task ran"),
    "rolled back and there": (
        lambda e: replace(
            e, committed_orders={*e.committed_orders, _first(e, "rolled back").number}
        ),
        "rolled back: the order is there",
    ),
    "cancelled and run": (lambda e: _ran(e, "cancelled"), "cancelled through the outbox"),
    "cancelled all the same": (
        lambda e: _without(e, "cancellation rolled back"),
        "cancelled, and rolled back",
    ),
    "not moved": (lambda e: replace(e, records=e.records[1:]), "its last record is in the log"),
    "opened again": (lambda e: _moved(e, "cancelled"), "its last record is in the log"),
    "rolled back and moved": (lambda e: _moved(e, "rolled back"), "in the log, and not committed"),
    "other order": (_swapped, "not in the order of commits"),
    "readable in the log": (_unsealed, "secret data in the log"),
    "not sealed": (_unsealed, "their data is sealed"),
    "readable rows": (lambda e: replace(e, readable_rows=1), "waiting rows of the outbox"),
    "readable store": (lambda e: replace(e, readable_store=1), "secret data in the store"),
    "rows left": (lambda e: replace(e, rows_left=1), "rows left"),
    "letter": (lambda e: replace(e, dead_letters=[e.records[0]]), "dead letters"),
    "twice": (lambda e: replace(e, runs=[*e.runs, e.runs[-1]]), "for no such reason"),
    "mover lives": (lambda e: replace(e, waiting_at_restarts=[30]), "mover killed"),
    "mover killed in vain": (lambda e: replace(e, waiting_at_restarts=[30, 0]), "mover killed"),
    "one process": (
        lambda e: replace(e, runs=[replace(run, pid=SECOND) for run in e.runs]),
        "ran tasks before the kill",
    ),
    "not started again": (lambda e: replace(e, restarted=False), "started again"),
    "bad stop": (lambda e: replace(e, stop_codes=[0, -9]), "end well"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_planted_fault_fails_its_check(good: Evidence, damage: str) -> None:
    """The table would be worth nothing otherwise."""
    plant, what = DAMAGES[damage]

    broken = [check.what for check in judge(plant(good)) if not check.holds]

    assert any(what in name for name in broken), broken


def test_orders_have_every_fate() -> None:
    """Each check of a fate has something to look at."""
    fates = [order.fate for order in make_orders(300, STARTS, 30)]

    assert min(fates.count(fate) for fate in set(fates)) >= 5
    assert len(set(fates)) == 4
