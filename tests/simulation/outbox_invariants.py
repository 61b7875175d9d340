"""The invariant of the outbox: promise P25.

It yields one sentence for each violation, as those of ``invariants`` do.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from hourhand.actors.model.task.codec import Command, LogRecord
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.task.task import StoredTask
from tests.simulation.history import Happened, TransactionEnded, Written
from tests.simulation.judged import Complaints, Run
from tests.simulation.outbox_world import APPLICATION


def p25_what_was_committed_is_scheduled(run: Run) -> Complaints:
    """What was committed is in the log, in the order of commits, and runs; nothing of what was
    rolled back is or does.
    """
    committed: dict[str, list[Written]] = defaultdict(list)
    for transaction in run.history.of(TransactionEnded):
        for each in transaction.written if transaction.committed else ():
            committed[each.key.ordering_id].append(each)
    moved = _moved(run)
    for ordering_id in committed.keys() | moved.keys():
        yield from _against_order(committed[ordering_id], moved[ordering_id], _log_failed(run))
    yield from _against_runs(run, committed)
    for record in set(run.foreign_rows) - run.truth.outbox_letters():
        yield f"{record!r} left the outbox and has no dead letter"


def _moved(run: Run) -> dict[str, list[Written]]:
    """Return what the log holds of the application's ids, record by record."""
    found: dict[str, list[Written]] = defaultdict(list)
    for partition in range(run.partitions):
        for record in run.truth.records(partition):
            if (record.key or b"").startswith(APPLICATION.encode()):
                written = _written(run, record)
                found[written.key.ordering_id].append(written)
    return found


def _written(run: Run, record: LogRecord) -> Written:
    entry = run.truth.entry(record)
    if isinstance(entry, Command):
        return Written(entry.key, None)
    assert isinstance(entry, StoredTask), "the outbox writes no poison"
    number = entry.to_task().data["n"]
    assert isinstance(number, int), "the application numbers its tasks"
    return Written(entry.key, number)


def _log_failed(run: Run) -> bool:
    """True if the log may have refused a record and taken one behind it."""
    return any(
        each.what.startswith("log:") or each.what == "broker" for each in run.history.of(Happened)
    )


def _against_order(
    committed: Sequence[Written], moved: Sequence[Written], log_failed: bool
) -> Iterator[str]:
    places = {each: place for place, each in enumerate(committed)}
    reached: dict[TaskKey, int] = {}
    for each in moved:
        if each not in places:
            yield f"{each} is in the log and was not committed"
            continue
        if reached.get(each.key, -1) > places[each]:
            yield f"{each} is in the log behind what was committed later for its key"
        reached[each.key] = places[each]
    last = {each.key: place for place, each in enumerate(committed)}
    for key in last.keys() - reached.keys():
        yield f"{key} was committed and is not in the log"
    for key, place in reached.items():
        if place != last[key]:
            yield f"the last record of {key} is not what was committed last"
    # Of a key that is written again while its rows wait, the newest takes the place of the first.
    written = Counter(each.key for each in committed)
    first = [places[e] for e in dict.fromkeys(moved) if e in places and written[e.key] == 1]
    if not log_failed and first != sorted(first):
        yield f"the log has {first} of what was committed in order"


def _against_runs(run: Run, committed: dict[str, list[Written]]) -> Iterator[str]:
    last = {each.key: each for some in committed.values() for each in some}
    for start in run.started:
        if start.key.ordering_id.startswith(APPLICATION) and start.key not in last:
            yield f"{start.key} ran and was not committed"
    for key, each in last.items():
        results = {completion.result for completion in run.completed[key]}
        if each.number is not None and CompletionResult.SUCCESS not in results:
            yield f"{key} was committed and did not run"
