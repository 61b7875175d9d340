"""The keys of ``hourhand dev`` and their effect: pause and resume, run what waits, quit.

Decides what a key stands for; the acts are those of the other commands, with entries in the audit
log. Acts follow one another in the order of the keys.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from hourhand.actors.model.operations.pauses import PauseScope
from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.values.display import message_of
from hourhand.scheduler.admin.acting import Action, TasksActedOn
from hourhand.scheduler.admin.auditing import DAY_MS
from hourhand.scheduler.admin.service import AdminService
from hourhand.scheduler.cli.failing import say
from hourhand.scheduler.cli.operating import act_on_tasks
from hourhand.scheduler.cli.operator_commands import change_pauses
from hourhand.scheduler.tasks.inspector import as_executed
from hourhand.scheduler.tasks.task_state import TaskState

KEYS_HELP = "keys: p pauses and resumes, r runs now what waits, q quits"
_AHEAD_MS = 31 * DAY_MS
_TASKS_MAX = 100
_LOOKED_MAX = 1_000
_WAIT_S = 5.0
_REASON = "a key of hourhand dev"


class DevKeys:
    """Takes keys, and acts on a thread of its own."""

    def __init__(self, service: AdminService, leave: Callable[[], None]) -> None:
        self._service = service
        self._leave = leave
        self._thread = ThreadPoolExecutor(1, "hourhand-keys")

    def close(self) -> None:
        """Wait for the act that is under way, and begin no other."""
        self._thread.shutdown(cancel_futures=True)

    def take(self, key: str) -> None:
        """React to a key; unknown ones are answered with those that are known."""
        match key:
            case "q":
                self._leave()
            case "p":
                self._thread.submit(self._act, toggle_pause)
            case "r":
                self._thread.submit(self._act, run_waiting)
            case _:
                say(KEYS_HELP)

    def _act(self, act: Callable[[AdminService], str]) -> None:
        try:
            say(act(self._service))
        except Exception as error:  # noqa: BLE001 - a key that fails ends nothing
            say(f"that did not work: {message_of(error)}")


def toggle_pause(service: AdminService) -> str:
    """Pause everything, or resume it; return what was done, for a person."""
    everything = service.pauses.target(PauseScope.ALL, None, None)
    paused = any(each.scope is PauseScope.ALL for each in service.pauses.config().pauses)
    change_pauses(service, "resume" if paused else "pause", [everything], _REASON, yes=True)
    return "resumed" if paused else "paused: no attempt starts until p is pressed again"


def run_waiting(service: AdminService) -> str:
    """Run now the next tasks that wait for their first attempt; return what was done, for a person.

    Takes at most 100 tasks, of the next 31 days.
    """
    service.cluster.read()
    word, to_ms = service.cluster.word(), service.clock.now_ms() + _AHEAD_MS
    found = service.inspector.list_open(to_ms=to_ms, limit=_LOOKED_MAX, looked_max=_LOOKED_MAX)
    keys = [
        each.key
        for each in found.tasks
        if as_executed(each, word).state is TaskState.PENDING
        and not each.key.ordering_id.startswith(RESERVED)
    ][:_TASKS_MAX]
    if not keys:
        return "no task waits"
    tried = act_on_tasks(service, Action.RUN_NOW, keys, None, _REASON, wait_s=_WAIT_S)
    return "; ".join(TasksActedOn.of(tried, Action.RUN_NOW.value).said)
