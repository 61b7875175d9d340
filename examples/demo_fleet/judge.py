"""Turns the evidence into one line per check.

Executions are judged by the executors' own records, commits by the application's database, the
mover's records by the topic as Kafka's own client reads it.
"""

import json
from collections import defaultdict
from collections.abc import Iterable

from examples.demo_cluster.executor import micros
from examples.demo_fleet.executor import SECRET
from examples.demo_fleet.play import KILLS, PROCESSES, Evidence
from examples.demo_fleet.shop import Entry, Order
from examples.demo_stage.checks import Check, count_check, number_check
from hourhand.scheduler.demo.audit import Planned, audit


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
        count_check("rolled back: the task ran", _ids(evidence, "rolled back") & started),
        count_check("rolled back: the order is there", _ids(evidence, "rolled back") & committed),
        count_check(
            "cancelled through the outbox: the task ran", _ids(evidence, "cancelled") & started
        ),
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
        count_check(
            "in the log, and not committed", [e.task_id for e in moved if e not in journal]
        ),
        count_check("of a customer, not in the order of commits", _disorder(evidence, places)),
        count_check("rows left in the outbox", range(evidence.rows_left)),
        count_check("dead letters", [letter.key for letter in evidence.dead_letters]),
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
    sealed = sum("seal" in value for value in tasks)
    return [
        count_check("secret data in waiting rows of the outbox", range(evidence.readable_rows)),
        count_check("secret data in the log", readable),
        count_check("secret data in the store", range(evidence.readable_store)),
        number_check("tasks in the log: their data is sealed", max(1, len(tasks)), sealed),
    ]


def _runs(evidence: Evidence) -> list[Check]:
    found = audit([_planned(order) for order in evidence.orders], evidence.runs, evidence.killed)
    return [
        Check("run again: in flight at the kill", "any", f"{len(found.repeated):,}", holds=True),
        count_check("run again: for no such reason", found.duplicates),
        count_check("started early", found.early),
        count_check("two at once of one customer", found.overlapping),
        count_check("out of order within a customer", found.out_of_order),
        count_check("begun and never ended, though not killed", found.unended),
    ]


def _planned(order: Order) -> Planned:
    runs = order.fate in {"kept", "cancellation rolled back"}
    return Planned(order.task_id, order.customer, micros(order.due), runs=runs)


def _processes(evidence: Evidence) -> list[Check]:
    waited = evidence.waiting_at_restarts
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
        count_check(
            "node processes that ran tasks before the kill",
            _before(evidence, killed_us),
            PROCESSES,
        ),
        Check(
            "the killed process: started again, others go on",
            "yes",
            "yes" if evidence.restarted and after - evidence.killed.keys() else "no",
            evidence.restarted and bool(after - evidence.killed.keys()),
        ),
        number_check(
            "processes that end well when asked to stop", max(1, len(codes)), codes.count(0)
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
    return number_check(what, max(1, len(wanted)), len(wanted) - len(missing), missing)
