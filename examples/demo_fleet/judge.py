"""Turns the evidence into one line per check.

Executions are judged by the executors' own records, commits by the application's database, the
mover's records by the topic as Kafka's own client reads it.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

from examples.demo_cluster.executor import micros
from examples.demo_cluster.show import Check
from examples.demo_fleet.executor import SECRET
from examples.demo_fleet.play import KILLS, PROCESSES, Evidence
from examples.demo_fleet.shop import Entry, Order
from hourhand.actors.model.task.sealed import MEMBER
from hourhand.scheduler.demo.audit import Planned, audit

_DETAILS_MAX = 5


def judge(evidence: Evidence) -> list[Check]:
    """Return every check with its verdict."""
    return [
        *_transactions(evidence),
        *_log(evidence),
        *_seals(evidence),
        *_runs(evidence),
        *_processes(evidence),
    ]


def _transactions(evidence: Evidence) -> list[Check]:
    started = {run.task_id for run in evidence.runs}
    succeeded = {run.task_id for run in evidence.runs if run.succeeded}
    kept = _ids(evidence, "kept")
    restored = _ids(evidence, "cancellation rolled back")
    committed = {f"order-{number:05}" for number in evidence.committed_orders}
    return [
        _all("committed: the task ran", kept, succeeded),
        _none("rolled back: the task ran", _ids(evidence, "rolled back") & started),
        _none("rolled back: the order is there", _ids(evidence, "rolled back") & committed),
        _none("cancelled through the outbox: the task ran", _ids(evidence, "cancelled") & started),
        _all("cancelled, and rolled back: the task ran", restored, succeeded),
    ]


def _log(evidence: Evidence) -> list[Check]:
    journal = set(evidence.journal)
    moved = [_entry(record.value) for record in evidence.records]
    places = {entry: place for place, entry in enumerate(evidence.journal)}
    last = {entry.task_id: entry for entry in evidence.journal}
    last_moved = {entry.task_id: entry for entry in moved}
    return [
        _all("committed: its last record is in the log", last.values(), last_moved.values()),
        _none("in the log, and not committed", [e.task_id for e in moved if e not in journal]),
        _none("of a customer, not in the order of commits", _disorder(evidence, places)),
        _none("rows left in the outbox", range(evidence.rows_left)),
        _none("dead letters", [letter.key for letter in evidence.dead_letters]),
    ]


def _disorder(evidence: Evidence, places: dict[Entry, int]) -> list[str]:
    """Return the customers whose records first stand in the log in another order.

    If a task was cancelled while its rows waited, the log has only the cancellation, in the place
    of either.
    """
    customers = {order.task_id: order.customer for order in evidence.orders}
    entries: dict[str, int] = defaultdict(int)
    for entry in evidence.journal:
        entries[entry.task_id] += 1
    by_customer: dict[str, list[int]] = defaultdict(list)
    for entry in dict.fromkeys(_entry(record.value) for record in evidence.records):
        if entry in places and entries[entry.task_id] == 1:
            by_customer[customers[entry.task_id]].append(places[entry])
    return [each for each, found in by_customer.items() if found != sorted(found)]


def _seals(evidence: Evidence) -> list[Check]:
    readable = [record.key for record in evidence.records if SECRET in record.value]
    values = [json.loads(record.value) for record in evidence.records]
    tasks = [value for value in values if "command" not in value]
    sealed = sum(MEMBER in value["taskData"] for value in tasks)
    return [
        _none("secret data in waiting rows of the outbox", range(evidence.readable_rows)),
        _none("secret data in the log", readable),
        _none("secret data in the store", range(evidence.readable_store)),
        Check(
            "tasks in the log: their data is sealed",
            f"{len(tasks):,}",
            f"{sealed:,}",
            bool(tasks) and sealed == len(tasks),
        ),
    ]


def _runs(evidence: Evidence) -> list[Check]:
    found = audit([_planned(order) for order in evidence.orders], evidence.runs, evidence.killed)
    return [
        Check("run again: in flight at the kill", "any", f"{len(found.repeated):,}", holds=True),
        _none("run again: for no such reason", found.duplicates),
        _none("started early", found.early),
        _none("two at once of one customer", found.overlapping),
        _none("out of order within a customer", found.out_of_order),
        _none("begun and never ended, though not killed", found.unended),
    ]


def _planned(order: Order) -> Planned:
    runs = order.fate in {"kept", "cancellation rolled back"}
    return Planned(order.task_id, order.customer, micros(order.due), runs=runs)


def _processes(evidence: Evidence) -> list[Check]:
    waited = evidence.waiting_at_restarts
    pids = {run.pid for run in evidence.runs}
    killed_us = max(evidence.killed.values(), default=0)
    after = {run.pid for run in evidence.runs if run.started_us > killed_us}
    codes = evidence.stop_codes
    return [
        Check(
            "mover killed while rows waited",
            f"{KILLS} times",
            f"{len(waited)} times",
            len(waited) == KILLS and all(waited),
        ),
        Check(
            "node processes that ran tasks before the kill",
            str(PROCESSES),
            str(len(pids & _before(evidence, killed_us))),
            len(_before(evidence, killed_us)) == PROCESSES,
        ),
        Check(
            "the killed process: started again, others go on",
            "yes",
            "yes" if evidence.restarted and after - evidence.killed.keys() else "no",
            evidence.restarted and bool(after - evidence.killed.keys()),
        ),
        Check(
            "processes that end well when asked to stop",
            str(len(codes)),
            str(sum(code == 0 for code in codes.values())),
            bool(codes) and not any(codes.values()),
        ),
    ]


def _before(evidence: Evidence, moment_us: int) -> set[int]:
    return {run.pid for run in evidence.runs if run.started_us <= moment_us}


def _ids(evidence: Evidence, fate: str) -> set[str]:
    return {order.task_id for order in evidence.orders if order.fate == fate}


def _entry(value: str) -> Entry:
    record = json.loads(value)
    return Entry(record["uniquenessKey"], record.get("command") == "cancel")


def _all(what: str, wanted: Iterable[object], seen: Iterable[object]) -> Check:
    wanted = set(wanted)
    missing = sorted(map(str, wanted - set(seen)))
    expected, found = f"{len(wanted):,}", f"{len(wanted) - len(missing):,}"
    return Check(what, expected, found, bool(wanted) and not missing, missing[:_DETAILS_MAX])


def _none(what: str, found: Iterable[object]) -> Check:
    told: Sequence[str] = sorted(map(str, found))
    return Check(what, "0", str(len(told)), not told, told[:_DETAILS_MAX])
