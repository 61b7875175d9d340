"""Each section of the page "My task did not run", tried: what it shows is seen, what it does helps.

A section is a situation, which its function here brings about.  Then its commands are typed, and
in the end the task has run.
"""

import re
import shlex
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import tenacity

from hourhand import Hourhand, Limit, RetryPolicy, Scheduler, SchedulerClient, Task
from hourhand.actors.model.task.key import TaskKey
from tests.documents.blocks import Block, blocks
from tests.newcomer.terminal import compare, steps
from tests.tidy.source import ROOT
from tests.unit.scheduler.cli.commands import answer, invoke, settings_of
from tests.waiting import until

PAGE = ROOT / "docs" / "troubleshooting.md"
app = Hourhand()
bank_is_away = threading.Event()
UP_TO = RetryPolicy(attempts_max=1, on_exhausted="block")


@app.task("mail")
def mail(data: dict[str, object]) -> None:
    """Succeed."""


@app.task("capped", limits=Limit(rate=1, per=timedelta(hours=1)))
def capped(data: dict[str, object]) -> None:
    """Succeed, once an hour."""


def charged() -> None:
    """Succeed unless the bank is away."""
    if bank_is_away.is_set():
        bank_is_away.clear()
        raise ConnectionError("the bank is away")


@app.task("charge", retry=UP_TO)
def charge(data: dict[str, object]) -> None:
    """Block where it fails."""
    charged()


@app.task("remind", retry=RetryPolicy(wait=tenacity.wait_fixed(timedelta(minutes=10))))
def remind(data: dict[str, object]) -> None:
    """Wait for long where it fails."""
    charged()


def task(kind: str, name: str, ordering_id: str = "customer-7", due_s: float = 0) -> Task:
    """Return a task due in so many seconds."""
    due = datetime.now(UTC) + timedelta(seconds=due_s)
    return Task(
        ordering_id=ordering_id, scheduled_time=due, uniqueness_key=name, data={}, kind=kind
    )


class Installation:
    """A folder with a node, which runs for most of the sections."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.node: Scheduler | None = None

    def start(self) -> None:
        """Start a node."""
        self.node = Scheduler(settings_of(self.folder), executors=app)
        self.node.start()

    def close(self) -> None:
        """Stop it."""
        if self.node is not None:
            self.node.close()

    def schedule(self, given: Task) -> TaskKey:
        """Schedule a task as another program does."""
        with SchedulerClient(settings_of(self.folder)) as client:
            return client.schedule_task(given).result(30).key

    def state(self, key: TaskKey | str) -> str:
        """Return the state of a task, as the command line tells it."""
        shown = invoke(self.folder, "show", str(key))
        return shown.stdout.split()[1]

    def settle(self, key: TaskKey, state: str) -> None:
        """Wait until a task is in a state."""
        until(lambda: self.state(key) == state, timeout_s=10)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation whose node runs."""
    installation = Installation(tmp_path_factory.mktemp("troubles") / "data")
    installation.start()
    yield installation
    installation.close()


Keys = dict[str, TaskKey]


def paused(at: Installation) -> Keys:
    """A task of an ordering id that an operator has paused."""
    invoke(at.folder, "pause", "--ordering-id", "customer-7", "--reason", "bank holiday")
    until(lambda: all(each["pauseKnown"] for each in answer(at.folder, "nodes")["partitions"]))
    return {"KEY": at.schedule(task("mail", "paused"))}


def blocked(at: Installation) -> Keys:
    """A task that used up its attempts."""
    bank_is_away.set()
    key = at.schedule(task("charge", "blocked"))
    at.settle(key, "blocked")
    return {"KEY": key}


def behind(at: Installation) -> Keys:
    """A task behind one that is blocked."""
    bank_is_away.set()
    first = at.schedule(task("charge", "first", "customer-8"))
    at.settle(first, "blocked")
    return {"FIRST": first, "KEY": at.schedule(task("mail", "second", "customer-8"))}


def limited(at: Installation) -> Keys:
    """A second task within an hour, of a kind with one an hour."""
    at.settle(at.schedule(task("capped", "first", "customer-9")), "success")
    key = at.schedule(task("capped", "second", "customer-9"))
    at.settle(key, "limited")
    return {"KEY": key}


def unknown_kind(at: Installation) -> Keys:
    """A task of a kind that no node has."""
    key = at.schedule(task("report", "unknown"))
    at.settle(key, "blocked")
    return {"KEY": key}


def retried(at: Installation) -> Keys:
    """A task that failed once."""
    bank_is_away.set()
    key = at.schedule(task("remind", "retried"))
    at.settle(key, "retrying")
    return {"KEY": key}


def later(at: Installation) -> Keys:
    """A task that is due in two hours."""
    key = at.schedule(task("mail", "later", due_s=7_200))
    at.settle(key, "pending")
    return {"KEY": key}


def closed(at: Installation) -> Keys:
    """A task that has run."""
    key = at.schedule(task("mail", "closed"))
    at.settle(key, "success")
    return {"KEY": key}


SITUATIONS: dict[str, Callable[[Installation], Keys]] = {
    "It is paused": paused,
    "It is blocked": blocked,
    "It waits behind another task": behind,
    "It waits for a limit": limited,
    "No node knows its kind": unknown_kind,
    "It waits for its next attempt": retried,
    "Its time has not come": later,
    "It ran already": closed,
}
"""Those in which a node runs."""
OTHER_KEY = ("No node knows its kind", "Its time has not come", "It ran already")
NO_NODE, ELSEWHERE = "No node runs", "It is in another folder"


def section(title: str) -> list[Block]:
    """Return the blocks of a section."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    begin = lines.index(f"## {title}")
    headings = [at for at, line in enumerate(lines) if at > begin and line.startswith("## ")]
    end = min(headings, default=len(lines))
    return [block for block in blocks(PAGE) if begin < block.line <= end]


def typed(at: Installation, block: Block, keys: Keys) -> list[str]:
    """Type a block's commands with these keys; return what was printed by the last one."""
    printed: list[str] = []
    for command, expected in steps(block):
        asked = _named(command, keys)
        result = invoke(at.folder, *shlex.split(asked)[1:])
        assert result.exit_code == 0, f"{asked}\n{result.output}"
        printed = result.output.splitlines()
        told = [_pressed(_named(line, keys)) for line in expected]
        compare(asked, told, [*map(_pressed, printed)])
    return printed


def _named(text: str, keys: Keys) -> str:
    return re.sub(r"\b(KEY|FIRST)\b", lambda found: str(keys[found[0]]), text)


def _pressed(line: str) -> str:
    return " ".join(line.split())


def test_every_section_of_the_page_is_tried() -> None:
    """And no situation without a section."""
    titles = re.findall(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert sorted(titles) == sorted([*SITUATIONS, NO_NODE, ELSEWHERE])


@pytest.mark.parametrize("title", SITUATIONS)
def test_what_a_section_does_helps(title: str, running: Installation) -> None:
    """The task runs, or the one that takes its place."""
    keys = SITUATIONS[title](running)
    told, *helps = section(title)
    _type_until_it_tells(running, told, keys)

    for block in helps:
        last = typed(running, block, keys)

    # Where another key takes its place, it is the last word that was printed.
    is_other = title in OTHER_KEY
    running.settle(TaskKey.parse(last[-1].split()[-1]) if is_other else keys["KEY"], "success")


def _type_until_it_tells(at: Installation, block: Block, keys: Keys) -> None:
    """Type a block until nodes have reported what it shows; they do each second."""
    failed: list[AssertionError] = []

    def tells() -> bool:
        try:
            typed(at, block, keys)
        except AssertionError as error:
            failed.append(error)
            return False
        return True

    try:
        until(tells, timeout_s=10, look_s=0.5)
    except AssertionError:
        raise failed[-1] from None


def test_a_task_without_a_node_runs_when_one_is_started(tmp_path: Path) -> None:
    """It is in the log until then."""
    at = Installation(tmp_path / "data")
    keys = {"KEY": at.schedule(task("mail", "early"))}
    told, started = section(NO_NODE)
    assert steps(started) == [("hourhand run --executor tasks:app", [])]
    (show, expected), (nodes, _) = steps(told)
    shown = invoke(at.folder, "show", str(keys["KEY"]))
    compare(show, expected, shown.output.splitlines())
    assert "unknown" in invoke(at.folder, *shlex.split(nodes)[1:]).output

    at.start()

    at.settle(keys["KEY"], "success")
    at.close()


def test_a_task_of_another_folder_is_found_there(tmp_path: Path) -> None:
    """And not here; both are told by the settings."""
    here, there = Installation(tmp_path / "here"), Installation(tmp_path / "there")
    here.schedule(task("mail", "here"))
    key = there.schedule(task("mail", "elsewhere"))
    there.start()
    there.settle(key, "success")

    assert str(key) not in invoke(here.folder, "list").output
    assert str(key) in invoke(there.folder, "list").output
    assert answer(here.folder, "settings")["embedded"]["folder"] == str(here.folder)
    there.close()
