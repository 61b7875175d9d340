"""What is found on a disk after a power cut, against what was told before it.

``look`` opens the folder and reads rows; ``live`` runs a node over it.  Each returns complaints;
none means that every promise held.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hourhand import Scheduler
from hourhand.actors.model.task.codec import Command, decode_record
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.embedded.log import EmbeddedLog
from hourhand.scheduler.adapters.embedded.stores import open_stores
from hourhand.scheduler.outbox.mover import OutboxMover
from hourhand.scheduler.outbox.ports import OutboxRow
from hourhand.scheduler.outbox.refused import key_of
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from tests.crash.history import RULES, Remainder, history_of
from tests.crash.journal import Event, Pen, Place
from tests.crash.load import Recorder, data_of, note_outcomes
from tests.judge.asked import TAKEN
from tests.judge.history import Attempt, History, Offer
from tests.judge.recount import recount
from tests.power_cut.doomed import TABLE, Places
from tests.unit.scheduler.adapters.embedded.files import WAIT_S, Listener

_QUIET_S = 20.0
"""A node that ends nothing for so long has nothing left to run."""
_RECORDS_MAX = 1_000_000


@dataclass(slots=True)
class Found:
    """All that a node would find, by key."""

    read: dict[TaskKey, StoredTask] = field(default_factory=dict)
    """Of records that a node will read."""
    commands: set[Place] = field(default_factory=set)
    """Of commands that a node will read."""
    stored: dict[TaskKey, StoredTask] = field(default_factory=dict)
    completions: dict[TaskKey, Completion] = field(default_factory=dict)
    decided: set[Place] = field(default_factory=set)
    in_outbox: set[TaskKey] = field(default_factory=set)


def look(root: Path, events: Sequence[Event]) -> list[str]:
    """Return what is wrong with a disk, by its rows alone."""
    places, history = Places(root), history_of(events, alive=-1, how="unpowered")
    told = [event for event in events if event.kind == "told"]
    try:
        found = _found(places, history, [event.place for event in told])
    except HourhandError as error:
        return [f"the folder is refused: {error}"]
    except sqlite3.Error as error:
        return [f"the outbox is refused: {error}"]
    complaints = [
        f"{_key(offer)} was accepted and is nowhere"
        for offer in history.offers
        if offer.answer in TAKEN
        if _key(offer) not in found.read.keys() | found.stored.keys()
        if _key(offer) not in found.completions.keys() | found.in_outbox
    ]
    complaints += [
        f"the {event.word} of {event.key} was accepted and is nowhere"
        for event in told
        if event.place not in found.commands | found.decided
    ]
    complaints += _run_again(found, history)
    complaints += _done_unseen(found, history)
    complaints += _wrong_data(found, places.payloads())
    return complaints


def _key(task: Offer | Attempt) -> TaskKey:
    return TaskKey(task.due_wall_us // 1_000, task.ordering_id, task.task_id)


def _run_again(found: Found, history: History) -> list[str]:
    """P5: of what ended well, only the last task of each ordering id is not known as done."""
    last = {(each.pid, each.ordering_id): each for each in history.attempts}
    ended = {_key(each): each for each in history.attempts if each.succeeded}
    return [
        f"{key} ended in run {each.pid}, is not the last of its id, and not done"
        for key, each in ended.items()
        if key not in found.completions and last[each.pid, each.ordering_id] is not each
    ]


def _done_unseen(found: Found, history: History) -> list[str]:
    """P1: what is done has run, and what is closed was closed by somebody."""
    ended = {_key(each) for each in history.attempts if each.succeeded}
    commanded = {each.task_id for each in history.commands}
    complaints = []
    for key, completion in found.completions.items():
        if completion.result is CompletionResult.SUCCESS:
            if key not in ended:
                complaints.append(f"{key} is done and never ended")
        elif key.uniqueness_key not in commanded:
            complaints.append(f"{key} is {completion.result}, which nobody asked for")
    return complaints


def _wrong_data(found: Found, payloads: PayloadCodecs) -> list[str]:
    """P1: what will run has the data it was given, wherever that is kept."""
    complaints = []
    for task in (*found.read.values(), *found.stored.values()):
        key = task.key
        try:
            data = payloads.opened(task.to_task()).data
        except (HourhandError, OSError) as error:
            complaints.append(f"the data of {key} cannot be had: {error}")
        else:
            if data != data_of(int(key.uniqueness_key)):
                complaints.append(f"{key} has other data than it was given")
    return complaints


def _found(places: Places, history: History, told: Sequence[Place]) -> Found:
    found = Found()
    keys: dict[int, list[TaskKey]] = {}
    settings = places.settings()
    with contextlib.ExitStack() as closing:
        log = EmbeddedLog(settings, SystemClock())
        closing.callback(log.close)
        stores = open_stores(settings)
        closing.callback(stores.close)
        listener = Listener()
        log.subscribe(listener)
        log.poll(0, 0)
        for key in {*map(_key, history.offers), *map(_key, history.attempts)}:
            partition = partition_of(key.ordering_id, len(listener.partitions))
            keys.setdefault(partition, []).append(key)
        for partition in listener.partitions:
            claim = stores.ownership.find_watermark(partition).result(WAIT_S)
            log.start(partition, claim.watermark.next_offset if claim else None)
            _read_store(stores, partition, keys.get(partition, []), found)
        while (polled := log.poll(_RECORDS_MAX, 0)).reached:
            for record in polled.records:
                decoded = decode_record(record)
                if isinstance(decoded, Command):
                    found.commands.add(Place(record.partition, record.offset))
                else:
                    found.read[decoded.key] = decoded
        for place in told:
            if stores.ownership.find_outcome(*place).result(WAIT_S) is not None:
                found.decided.add(place)
    found.in_outbox |= _in_outbox(places.shop)
    return found


def _read_store(stores: Stores, partition: int, keys: Sequence[TaskKey], found: Found) -> None:
    keys = sorted(keys)
    tasks = stores.schedule.find_tasks(partition, keys)
    completions = stores.status.find_completions(partition, keys)
    found.stored |= tasks.result(WAIT_S)
    found.completions |= completions.result(WAIT_S)


def _in_outbox(path: Path) -> set[TaskKey]:
    if not path.exists():
        return set()
    with contextlib.closing(sqlite3.connect(path)) as database:
        (there,) = database.execute(
            "SELECT count(*) FROM sqlite_schema WHERE name = ?", (TABLE,)
        ).fetchone()
        query = f"SELECT record FROM {TABLE}"  # noqa: S608 - the test's own name
        rows = database.execute(query).fetchall() if there else []
    return {key_of(OutboxRow(0, record, 0)) for (record,) in rows}


class _List(Pen):
    """Notes in memory what a node of this process does."""

    def __init__(self, run: int) -> None:
        super().__init__(-1, run)
        self._changed = threading.Condition()
        self.events: list[Event] = []

    def take(self, event: Event) -> None:
        """Keep an event."""
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def wait(self, seen: int) -> bool:
        """Wait for more than ``seen`` events; whether there are."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.events) > seen, _QUIET_S)


def live(root: Path, events: Sequence[Event], run: int) -> list[str]:
    """Run all that is left on a disk, with a node and a mover, and return what is wrong."""
    places = Places(root)
    told = [(event.key, event.place) for event in events if event.kind == "told"]
    pen = _List(run)
    try:
        with contextlib.ExitStack() as closing:
            scheduler = Scheduler(
                places.settings(),
                executor=lambda: Recorder(pen, threading.Semaphore(0)),
                payloads=places.payloads(),
            )
            closing.enter_context(scheduler)
            if places.shop.exists() and any(event.kind == "committed" for event in events):
                closing.enter_context(OutboxMover(places.settings()))
            note_outcomes(scheduler, pen, told)
            _follow(events, pen)
    except HourhandError as error:
        return [f"the node does not start: {error}"]
    return recount(history_of([*events, *pen.events], run, "unpowered"), RULES).told()


def _follow(events: Sequence[Event], pen: _List) -> None:
    """Wait until all that is owed has ended, or nothing more ends."""
    remainder = Remainder([*events, *pen.events])
    seen = len(pen.events)
    while remainder.read_on(pen.events) and pen.wait(seen):
        seen = len(pen.events)
