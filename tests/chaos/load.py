"""The steady load: tasks offered to a client at a fixed rate, and what became of each offer.

Tasks come in small groups of one ordering id with times close together or equal, written in
any order, so that running them in key order takes some care.  Decides nothing about what
must run: it writes down what the client's futures said.
"""

import random
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hourhand import SchedulerClient, Settings, Task
from hourhand.actors.model.values.errors import CallerError
from tests.chaos.executor import LIMITED_KIND, PROCESS_KIND
from tests.chaos.records import OFFERS_FILE, Appender, now_us, wall_us, write_offer
from tests.judge.history import Answer, Offer, Work

_TICK_S = 0.05
_ANSWERS_S = 60.0
"""Longer than the driver's own wait for an acknowledgement."""
_PLAIN_IDS = 2_000
_SLOW_IDS = 100
_RETRY_IDS = 50
_LIMITED_IDS = 200
_SLOW_SHARE, _RETRY_SHARE, _NEAR_SHARE = 0.01, 0.01, 0.1
_LIMITED_SHARE = 0.1
"""Share of groups; of tasks it is a twentieth."""
_PROCESS_IDS = 200
_PROCESSES_PER_S = 1.0
"""Tasks in processes: about two of a node work at a time, each for longer than a lease."""
_PROCESS_WORK_MS = (6_000, 9_000)
_KINDS = {"limited": LIMITED_KIND, "process": PROCESS_KIND}
_TENANTS = ("first", "second")
_BUNCH_S = 10
"""Limited tasks fall due together once in this time: more at once than their limit lets begin."""
_GROUP_TASKS_MAX = 4
_GROUP_SPREAD_MS = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The load that is offered, and its lead."""

    tasks_per_s: int
    lead_s: float
    """Time by which most of the load is offered before it is due; a tenth comes near its time."""
    seed: int


class LoadGenerator:
    """Offers tasks on a thread of its own from ``start`` to ``stop``."""

    def __init__(self, settings: Settings, plan: LoadPlan, folder: Path) -> None:
        self._client = SchedulerClient(settings)
        self._plan = plan
        self._rng = random.Random(plan.seed)
        self._file = Appender(folder / OFFERS_FILE)
        self._ended = threading.Event()
        self._offered = 0
        self._unanswered: set[Future[Any]] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="chaos-load", daemon=True)
        self.accepted: set[str] = set()
        """Tasks whose future has resolved."""
        self.last_due_us = 0
        """The latest time of any task, by the wall clock."""

    @property
    def offered(self) -> int:
        """Number of tasks that have been offered."""
        return self._offered

    def start(self) -> None:
        """Begin to offer."""
        self._thread.start()

    def stop(self) -> None:
        """Offer no more, and wait, bounded, for every answer."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            unanswered = list(self._unanswered)
        pause = threading.Event()
        until_us = now_us() + round(_ANSWERS_S * 1e6)
        while any(not each.done() for each in unanswered) and now_us() < until_us:
            pause.wait(_TICK_S)
        self._client.close()

    def _run(self) -> None:
        began_us = now_us()
        while not self._ended.wait(_TICK_S):
            wanted = (now_us() - began_us) * self._plan.tasks_per_s // 1_000_000
            # After a stall of this thread the load stays steady: what was missed is left out.
            if wanted - self._offered > self._plan.tasks_per_s:
                began_us += (wanted - self._offered) * 1_000_000 // self._plan.tasks_per_s
                continue
            while self._offered < wanted:
                for task, work in self._group():
                    self._offer(task, work)

    def _offer(self, task: Task, work: Work) -> None:
        self._offered += 1
        due_us = (task.scheduled_time - _EPOCH) // timedelta(microseconds=1)
        self.last_due_us = max(self.last_due_us, due_us)
        future = self._client.schedule_task(task)
        with self._lock:
            self._unanswered.add(future)

        def answered(done: "Future[Any]") -> None:
            error = done.exception()
            answer: Answer = "accepted" if error is None else "unknown"
            if isinstance(error, CallerError):
                answer = "refused"
            write_offer(
                self._file,
                Offer(
                    task_id=task.uniqueness_key,
                    ordering_id=task.ordering_id,
                    due_wall_us=due_us,
                    work=work,
                    answer=answer,
                    answered_wall_us=wall_us(),
                    partition=done.result().partition if error is None else None,
                    tenant=str(task.data.get("tenant", "")),
                ),
            )
            with self._lock:
                self._unanswered.discard(done)
                if error is None:
                    self.accepted.add(task.uniqueness_key)

        future.add_done_callback(answered)

    def _group(self) -> list[tuple[Task, Work]]:
        """Make a few tasks of one ordering id."""
        rng = self._rng
        work, ordering_id = self._kind()
        near = rng.random() < _NEAR_SHARE
        lead_s = rng.uniform(0.5, 5.0) if near else self._plan.lead_s + rng.uniform(0.0, 6.0)
        first = datetime.now(UTC) + timedelta(seconds=lead_s)
        tasks = [
            Task(
                ordering_id=ordering_id,
                scheduled_time=self._due(work, first),
                uniqueness_key=f"{rng.getrandbits(24):06x}-{self._offered + number}",
                data=self._data(work),
                kind=_KINDS.get(work),
            )
            for number in range(rng.randint(1, _GROUP_TASKS_MAX) if work == "plain" else 1)
        ]
        return [(task, work) for task in tasks]

    def _kind(self) -> tuple[Work, str]:
        drawn = self._rng.random()
        if drawn < _SLOW_SHARE:
            return "slow", f"slow-{self._rng.randrange(_SLOW_IDS)}"
        if drawn < _SLOW_SHARE + _RETRY_SHARE:
            return "retry", f"retry-{self._rng.randrange(_RETRY_IDS)}"
        if drawn < _SLOW_SHARE + _RETRY_SHARE + _LIMITED_SHARE:
            return "limited", f"limited-{self._rng.randrange(_LIMITED_IDS)}"
        # The share counts groups: a group of plain tasks has two and a half.
        share = _PROCESSES_PER_S * (1 + _GROUP_TASKS_MAX) / 2 / self._plan.tasks_per_s
        if drawn > 1 - share:
            return "process", f"process-{self._rng.randrange(_PROCESS_IDS)}"
        return "plain", f"plain-{self._rng.randrange(_PLAIN_IDS)}"

    def _due(self, work: Work, first: datetime) -> datetime:
        if work == "limited":
            return _EPOCH + timedelta(seconds=(first.timestamp() // _BUNCH_S + 1) * _BUNCH_S)
        return first + timedelta(milliseconds=self._distance_ms())

    def _distance_ms(self) -> int:
        """Some of a group fall due at the same millisecond."""
        return self._rng.choice((0, 0, self._rng.randrange(_GROUP_SPREAD_MS)))

    def _data(self, work: Work) -> dict[str, Any]:
        match work:
            case "slow":
                return {"work_ms": self._rng.randint(500, 2_000)}
            case "retry":
                return {"retry_after_ms": self._rng.randint(200, 2_000)}
            case "process":
                return {"work_ms": self._rng.randint(*_PROCESS_WORK_MS)}
            case "limited":
                return {"tenant": self._rng.choice(_TENANTS)}
            case "plain":
                return {"work_ms": self._rng.choice((0, 0, 0, 5, 20))}
