"""Dead letters: which are found, and what comes of bringing their tasks back."""

from typing import Any

import pytest

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.task.codec import Command, CommandKind, encode_command, encode_task
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.instant import format_instant
from hourhand.actors.model.values.settings import (
    ExecutionSettings,
    TreeSettings,
)
from hourhand.actors.ports.log import LogWriter
from hourhand.scheduler.adapters.memory.delivery import Request
from hourhand.scheduler.adapters.memory.stores import open_memory_stores
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.admin.dead_letters import DeadLetters
from tests.builders import NOW_MS, a_task
from tests.promises.group import QUIET, Group
from tests.unit.scheduler.admin.log_view import MemoryLogView
from tests.unit.scheduler.admin.world import World

GIVE_UP = RetryPolicy(attempts_max=1, on_exhausted="dead_letter")
DAY_MS = 86_400_000
SMALL = ExecutionSettings(row_bytes_max=2_000)


class Down(Exception):
    """What user code raises."""


class Full(Exception):
    """Something else that it raises."""


class Night(World):
    """An installation in which tasks fail; its node works while an outcome is waited for."""

    def __init__(self, **admin: object) -> None:
        super().__init__(**admin)
        self.group.journal.retry = GIVE_UP
        self.broken: type[Exception] | None = Down
        self.group.journal.says = self._fail
        self.writer: LogWriter = MemoryWriter(self.broker)
        self.works = True

        def deliver(request: Request[Any]) -> None:
            if request.kind == "find_outcome" and self.works:
                self.group.settle()
            request()

        stores = open_memory_stores(self.group.data, deliver)
        view = MemoryLogView(self.broker)
        self.service.dead_letters = DeadLetters(
            view, self.writer, stores, self.clock, 1, TreeSettings(execution=SMALL)
        )

    def _fail(self, _task: Task, _attempt: int) -> None:
        if self.broken is not None:
            raise self.broken("of the night")

    def fail(self, *tasks: Task, error: type[Exception] = Down) -> None:
        """Have tasks fail, and the cause mended."""
        self.broken = error
        for task in tasks:
            self.group.append(task)
        self.group.advance(60_000)
        self.broken = None

    def letters(self, **chosen: object) -> list[dict[str, Any]]:
        """Return dead letters, newest first."""
        status, page = self.get("/dead-letters", **chosen)
        assert status == 200, page
        return list(page["letters"])

    def replay(self, **body: object) -> Any:
        """Bring back, and return what was said."""
        status, told = self.post("/dead-letters/replay", {"waitS": 0, **body})
        return told if status == 200 else (status, told["code"])


class LongNight(Night):
    """One whose days pass quickly."""

    def make_group(self) -> Group:
        """Return an installation with little background work."""
        return Group(tree=QUIET, step_ms=600_000)


def failing(name: str = "invoice", *, kind: str | None = None, data: Any = None) -> Task:
    """Return a task that will fail."""
    return a_task(
        due_in_ms=1_000, ordering_id=name, uniqueness_key=name, data=data or {"of": name}, kind=kind
    )


@pytest.mark.parametrize("days", [0, 0.5, 9])
def test_p5_a_replay_runs_the_task_of_a_letter_again(days: float) -> None:
    """With the data of the letter; also where its row is gone by now."""
    night = LongNight()
    task = failing(data={"invoice": 42, "lines": [1, 2]})
    night.fail(task)
    night.group.advance(days * DAY_MS)
    (letter,) = night.letters()

    told = night.replay(places=[letter["place"]])
    night.group.advance(1_000)

    assert told["outcomes"] == {"replayed": 1}
    assert told["results"][0]["receipt"] == {"partition": 0, "offset": 1}
    assert [ran.data for ran in night.group.journal.ran] == [task.data, task.data]
    assert night.group.result_of(task) is CompletionResult.SUCCESS


def test_p12_a_replay_says_what_the_owner_found() -> None:
    """Not that something was sent."""
    night = Night()
    night.fail(failing("a"), failing("b"))
    places = {each["key"].split(",")[1]: each["place"] for each in night.letters()}
    night.works = False
    assert night.replay(places=[places["a"]])["outcomes"] == {"undecided": 1}
    night.works = True
    night.group.advance(1_000)

    assert night.replay(places=[places["a"]])["outcomes"] == {"ran_already": 1}
    paused = night.replay(places=[places["b"], places["b"], "0:99"])
    assert paused["outcomes"] == {"replayed": 1, "unknown": 1}
    entries = [(each["target"], each["result"]) for each in night.get("/audit")[1]["entries"]]
    assert entries == [
        ("2 letters", "replayed 1, unknown 1"),
        (places["a"], "ran_already 1"),
        (places["a"], "undecided 1"),
    ]


def test_a_letter_says_what_became_of_its_task() -> None:
    """Also after it was brought back: then there is nothing to replay."""
    night = Night()
    night.fail(failing("a", kind="mail"), failing("b"))

    before = {each["key"].split(",")[1]: each for each in night.letters()}
    night.replay(places=[before["a"]["place"]])
    night.group.advance(1_000)
    after = {each["key"].split(",")[1]: each for each in night.letters()}

    assert [before["a"][name] for name in ("kind", "replayable", "ended", "error")] == [
        "mail",
        True,
        "failure",
        "Down: of the night",
    ]
    assert (after["a"]["replayable"], after["a"]["ended"]) == (False, "success")
    assert (after["b"]["replayable"], after["b"]["ended"]) == (True, "failure")
    assert "kind" not in after["b"]


def test_a_letter_of_a_task_that_was_cancelled_since_cannot_be_replayed() -> None:
    """The list says what the owner would: bulk replays leave such letters out."""
    night = Night()
    night.fail(failing("a"), failing("b"))
    before = {each["key"].split(",")[1]: each for each in night.letters()}
    night.works = False
    night.replay(places=[before["a"]["place"]])
    night.group.client.cancel_task(TaskKey.parse(before["a"]["key"])).result(0)
    night.works = True
    night.group.advance(1_000)

    after = {each["key"].split(",")[1]: each for each in night.letters()}
    assert (after["a"]["replayable"], after["a"]["ended"]) == (False, "cancelled")
    assert night.replay(places=[after["a"]["place"]])["outcomes"] == {"already_closed": 1}
    assert night.replay(filter={}, dryRun=True)["first"] == [after["b"]["place"]]


def test_letters_are_brought_back_by_query_after_a_look() -> None:
    """By kind, error and time; the newest of each key, and none that ended well since."""
    night = Night()
    night.fail(failing("a", kind="mail"), failing("b", kind="mail"), failing("c"))
    night.fail(failing("d", kind="mail"), error=Full)
    night.replay(places=[night.letters(kind="mail")[-1]["place"]])
    night.group.advance(1_000)
    then = format_instant(night.clock.now_ms() - 90_000)
    mail = {"kind": "mail", "errorClass": "Down"}

    assert [each["key"].split(",")[1] for each in night.letters(errorClass="Full")] == ["d"]
    assert len(night.letters(kind="mail")) == 3
    assert [each["error"] for each in night.letters(**{"from": then})] == ["Full: of the night"]
    assert len(night.letters(to=then)) == 3
    seen = night.replay(filter=mail, dryRun=True)
    assert (seen["count"], len(seen["first"])) == (1, 1)
    assert night.replay(filter=mail) == (409, "other-count")
    assert night.replay(filter=mail, expected=2) == (409, "other-count")
    assert night.replay(filter=mail, expected=1)["outcomes"] == {"replayed": 1}
    night.group.advance(1_000)
    assert night.replay(filter=mail, dryRun=True)["count"] == 0
    assert night.replay(filter={"from": then}, dryRun=True)["count"] == 1
    rest = night.replay(filter={}, expected=2)
    assert (rest["asked"], rest["outcomes"]) == (2, {"replayed": 2})


def test_a_task_that_failed_twice_has_one_letter_to_bring_back() -> None:
    """The newest: both would open the same key."""
    night = Night()
    task = failing()
    night.fail(task)
    night.broken = Down
    night.replay(places=[night.letters()[0]["place"]])
    night.group.advance(60_000)
    night.broken = None

    newest, oldest = night.letters()
    seen = night.replay(filter={}, dryRun=True)

    assert seen["first"] == [newest["place"]] and newest["place"] != oldest["place"]


def test_p4_tasks_of_one_id_are_brought_back_in_their_order() -> None:
    """Letters are listed newest first, and the tasks run oldest first."""
    night = Night()
    tasks = [a_task(due_in_ms=number, uniqueness_key=str(number)) for number in range(5)]
    night.fail(*tasks)
    ran = len(night.group.journal.ran)

    assert night.replay(filter={}, expected=5)["outcomes"] == {"replayed": 5}

    night.group.advance(1_000)
    assert night.group.journal.names[ran:] == ["0", "1", "2", "3", "4"]


def test_old_letters_of_tasks_that_nobody_remembers_are_not_brought_back_by_query() -> None:
    """They may have ended well since; one by one an operator may try them."""
    night = Night()
    night.fail(failing("a"))
    letters = night.broker.dead_letters
    for days, name in ((15, "old"), (13, "new")):
        value = encode_task(failing(name))
        letters.append(NOW_MS - days * DAY_MS, name.encode(), value, ())

    seen = night.replay(filter={}, dryRun=True)
    old = next(each for each in night.letters() if each["key"].split(",")[1] == "old")

    assert seen["count"] == 2
    assert old["place"] not in seen["first"]
    assert night.replay(places=[old["place"]])["outcomes"] == {"replayed": 1}


def test_more_letters_than_may_be_acted_on_are_refused() -> None:
    """``admin.bulk_keys_max`` bounds them as it bounds tasks."""
    night = Night(bulk_keys_max=2)
    night.fail(*[failing(f"id-{n}") for n in range(3)])

    assert night.replay(filter={}, dryRun=True) == (409, "too-many-tasks")
    assert night.replay(filter={"kind": "other"}, dryRun=True)["count"] == 0


def test_a_filter_finds_letters_over_pages_of_others() -> None:
    """A page holds as many as were asked for, where there are so many."""
    night = Night()
    kinds = [("mail" if n % 3 else "page") for n in range(20)]
    night.fail(*[failing(f"id-{n:02}", kind=kind) for n, kind in enumerate(kinds)])

    found: list[str] = []
    before = None
    while True:
        chosen = {"kind": "page", "limit": 4, **({} if before is None else {"before": before})}
        page = night.get("/dead-letters", **chosen)[1]
        assert len(page["letters"]) <= 4
        found += [each["key"].split(",")[1] for each in page["letters"]]
        before = page["nextBefore"]
        if before is None:
            break

    assert sorted(found) == [f"id-{n:02}" for n in range(0, 20, 3)]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"places": ["0:1"], "filter": {}},
        {"filter": {"from": "yesterday"}},
        {"filter": {"from": format_instant(NOW_MS), "to": format_instant(NOW_MS)}},
        {"filter": {"state": "failure"}},
    ],
)
def test_a_replay_of_nothing_clear_is_refused(body: dict[str, object]) -> None:
    """And nothing is written down."""
    night = Night()

    answer = night.http.post("/dead-letters/replay", json=body)

    assert answer.status_code == 400
    assert night.get("/audit")[1]["entries"] == []


def test_a_letter_of_a_command_is_sent_as_it_was() -> None:
    """It went to the dead letters where its own partition refused it, and is a command still."""
    night = Night()
    task = a_task(due_in_ms=600_000)
    night.schedule(task)
    cancel = encode_command(Command(CommandKind.CANCEL, task.key))
    night.broker.dead_letters.append(NOW_MS, b"customer-7", cancel, ())

    (letter,) = night.letters()
    told = night.replay(places=[letter["place"]])

    assert told["outcomes"] == {"applied": 1}
    assert night.group.result_of(task) is CompletionResult.CANCELLED


@pytest.mark.parametrize(("spare_bytes", "word"), [(40, "replayed"), (10, "task-too-large")])
def test_a_letter_that_a_replay_makes_too_large_says_so(spare_bytes: int, word: str) -> None:
    """A node would put it aside again, and nobody would hear of it."""
    night = Night()
    plain = len(encode_task(failing(data={"pad": ""})))
    task = failing(data={"pad": "x" * (SMALL.row_bytes_max - spare_bytes - plain)})
    night.fail(task)

    told = night.replay(places=[night.letters()[0]["place"]])

    assert told["outcomes"] == {word: 1}
    assert ("retry the task by its key" in told["results"][0].get("detail", "")) == (
        word != "replayed"
    )
