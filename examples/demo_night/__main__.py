"""A service is away for a night, 2,000 tasks fail, a node dies; the documented commands mend it.

Plays the night, types the commands an operator would, and judges what became of each task by the
calls that the service has seen.  The exit code is 0 only if nothing is lost, doubled, or told
otherwise than it was.
"""

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from examples.demo_night.work import AWAY, CALLS, FOLDER
from examples.demo_stage.checks import Check, count_check, number_check, show_checks
from examples.demo_stage.stage import Stage, perform
from hourhand import SchedulerClient, Settings, Task
from hourhand.actors.model.task.key import TaskKey
from hourhand.scheduler.demo.node import NodeFailed, node_environment

TASKS = {"charge": 600, "mail": 700, "invoice": 700}
CUSTOMERS = 100
NIGHT_S = 8.0
"""In which all tasks fall due."""
SETTLED_S = 90.0
LOG_LINES_MAX = 400
"""Lines that the nodes may write for 4,000 attempts that fail."""
_COMMAND = ("run", "--executor", "examples.demo_night.work:app")
_WINDOW = ("--from", "-1h", "--to", "+1h")


class Night:
    """One folder with its node, and the commands of an operator."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.folder = stage.folder
        stage.variables = {
            "HOURHAND_EMBEDDED__FOLDER": str(self.folder / "data"),
            FOLDER: str(self.folder),
        }

    def hourhand(self, *words: str) -> Any:
        """Type a command; return what it says as JSON."""
        self.stage.console.print(f"  [bold]$ hourhand {' '.join(words)}[/]", highlight=False)
        return self.asked(*words)

    def asked(self, *words: str) -> Any:
        """Run a command without a word; return what it says as JSON."""
        ran = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-m", "hourhand", *words, "-o", "json"],
            env=node_environment(self.stage.variables),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode != 0:
            raise NodeFailed(f"hourhand {' '.join(words)} failed:\n{ran.stdout}{ran.stderr}")
        return json.loads(ran.stdout)

    def states(self) -> dict[str, Counter[str]]:
        """Return how many tasks are in which state, by kind."""
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for task in self.asked("list", *_WINDOW, "--limit", "10000")["tasks"]:
            kind = TaskKey.parse(task["key"]).uniqueness_key.partition("-")[0]
            found[kind][task["state"]] += 1
        return found

    def calls(self) -> list[dict[str, Any]]:
        """Return the calls that the service has served."""
        file = self.folder / CALLS
        if not file.exists():
            return []
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]

    def log_lines(self) -> int:
        """Return how many lines the nodes have written."""
        logs = self.folder.glob("node-*.log")
        return sum(len(log.read_text(errors="replace").splitlines()) for log in logs)


def tasks_of_the_night(begin: datetime) -> Iterator[Task]:
    """Yield tasks of all kinds, due over the night, in order for each customer."""
    for kind, count in TASKS.items():
        for number in range(count):
            yield Task(
                ordering_id=f"{kind}-customer-{number % CUSTOMERS}",
                scheduled_time=begin + timedelta(seconds=NIGHT_S * number / count),
                uniqueness_key=f"{kind}-{number}",
                data={"number": number},
                kind=kind,
            )


class Morning:
    """The commands that the operator typed, and their answers."""

    def __init__(self, night: Night) -> None:
        self._night = night
        self.answers: dict[str, dict[str, int]] = {}
        """By kind of task: how often each outcome was told."""

    def bring_back(self) -> None:
        """Bring everything back, each kind by its command."""
        common = ("--error", "ServiceAway", "--yes", "--reason", "the service is back")
        listed = ("list", *_WINDOW, "--limit", "10000")
        letters = ("dead-letters", "--kind", "invoice", "--replay-all")
        for kind, words in {
            "mail": (*listed, "--state", "failure", "--kind", "mail", "--act", "retry"),
            "invoice": letters,
            "charge": (*listed, "--state", "blocked", "--act", "retry"),
        }.items():
            told = self._night.hourhand(*words, *common)
            self.answers[kind] = told["outcomes"]

    def again(self) -> int:
        """Ask for the same once more; return how many tasks it would have concerned."""
        shown = self._night.asked("dead-letters", "--kind", "invoice", "--replay-all", "--dry-run")
        failed = self._night.asked("list", *_WINDOW, "--state", "failure", "--state", "blocked")
        return int(shown["count"]) + len(failed["tasks"])


def play(stage: Stage) -> bool:
    """Play the night and the morning; return whether all that was promised holds."""
    night = Night(stage)
    (night.folder / AWAY).touch()
    (node,) = stage.start(1, _COMMAND)
    begin = datetime.now(UTC) + timedelta(seconds=2)
    tasks = list(tasks_of_the_night(begin))
    settings = Settings(embedded={"folder": night.folder / "data"})
    with SchedulerClient(settings) as client:
        for future in [client.schedule_task(task) for task in tasks]:
            future.result(30)
    stage.say(f"{len(tasks):,} tasks are accepted; the service they call is away")
    stage.pause(NIGHT_S * 2 / 3)
    stage.kill(node)
    stage.say("the node was killed; another one starts")
    stage.start(1, _COMMAND)
    expected = {
        "mail": Counter(failure=TASKS["mail"]),
        "invoice": Counter(failure=TASKS["invoice"]),
        "charge": Counter(blocked=CUSTOMERS, pending=TASKS["charge"] - CUSTOMERS),
    }
    stage.wait_until(lambda: night.states() == expected, SETTLED_S)
    at_night = night.states()
    counted = ", ".join(f"{sum(each.values()):,} {kind}" for kind, each in at_night.items())
    stage.say(f"all attempts are used up: {counted}")
    (night.folder / AWAY).unlink()
    stage.say("the service is back; an operator brings the work back")
    morning = Morning(night)
    morning.bring_back()
    done = {kind: Counter(success=count) for kind, count in TASKS.items()}
    stage.wait_until(lambda: night.states() == done, SETTLED_S)
    ended = Check(
        "what the policies made of them",
        _counted(expected),
        _counted(at_night),
        at_night == expected,
    )
    checks = [ended, *judged(night, morning, tasks)]
    return show_checks(stage.console, "What was promised, and what was seen", checks)


def _counted(states: Mapping[str, Counter[str]]) -> str:
    """Return how many tasks are in which state, whatever their kind."""
    total = sum(states.values(), Counter[str]())
    return ", ".join(f"{count:,} {state}" for state, count in sorted(total.items()))


def judged(night: Night, morning: Morning, tasks: Sequence[Task]) -> Sequence[Check]:
    """Return what was promised beside what was seen."""
    served = Counter(each["key"] for each in night.calls())
    keys = [str(task.key) for task in tasks]
    states = night.states()
    succeeded = sum(each["success"] for each in states.values())
    order: defaultdict[str, list[TaskKey]] = defaultdict(list)
    for each in night.calls():
        key = TaskKey.parse(each["key"])
        order[key.ordering_id].append(key)
    lines = night.log_lines()
    brought_back = {"mail": "applied", "invoice": "replayed", "charge": "applied"}
    numbers = {"mail": TASKS["mail"], "invoice": TASKS["invoice"], "charge": CUSTOMERS}
    told = [
        Check(
            f"what the command said: {kind}",
            f"{numbers[kind]:,} {word}",
            ", ".join(f"{count:,} {each}" for each, count in morning.answers[kind].items()),
            morning.answers[kind] == {word: numbers[kind]},
        )
        for kind, word in brought_back.items()
    ]
    return [
        *told,
        count_check("tasks never served", [key for key in keys if not served[key]]),
        count_check("tasks served twice", [key for key in keys if served[key] > 1]),
        count_check("calls of unknown tasks", list(set(served) - set(keys))),
        count_check("customers out of order", [i for i, of in order.items() if of != sorted(of)]),
        number_check("tasks in state success", len(keys), succeeded),
        count_check("tasks still to bring back", range(morning.again())),
        Check(
            "lines in the nodes' logs",
            f"at most {LOG_LINES_MAX}",
            f"{lines:,}",
            lines <= LOG_LINES_MAX,
        ),
    ]


if __name__ == "__main__":
    perform("A bad night on one machine, and the morning after", play)
