"""What a newcomer gets wrong in the first hours, and what each mistake is answered with.

Decides the wording that a reader needs to go on: class, code and the part that says what to do.
"""

from typing import NamedTuple


class Misuse(NamedTuple):
    """A piece of a program that cannot be meant so."""

    name: str
    source: str
    """Statements that run with ``PREAMBLE``'s names; a last expression's future is waited for."""
    error: str
    """The class's name; a class of Hourhand's where ``code`` is given."""
    code: str | None
    said: str
    """A part of the message."""


PREAMBLE = """
import decimal, uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hourhand import *

NOW = datetime.now(UTC)


class Fine(TaskExecutor):
    def execute(self, task):
        pass


def settings(folder="folder", **more):
    return Settings(embedded={"folder": folder}, **more)


def task(**fields):
    given = {"ordering_id": "a", "scheduled_time": NOW, "uniqueness_key": "x", **fields}
    return Task(**given)


def scheduler(executor):
    return Scheduler(settings(), executor=executor)


def klass(**attributes):
    return type("Made", (TaskExecutor,), {"execute": Fine.execute, **attributes})


client = SchedulerClient(settings())
Path("bad").mkdir()
"""

_TASK = ("InvalidTask", "invalid-task")
_KEY = ("InvalidKey", "invalid-key")
_EXECUTOR = ("InvalidExecutor", "invalid-executor")
_SETTINGS = ("SettingsInvalid", "settings-invalid")
_JSON = "data.x: a JSON value is needed, got "

_TASKS = (
    Misuse("naive time", "task(scheduled_time=datetime.now())", *_TASK, "write datetime.now(UTC)"),
    Misuse(
        "time as text", "task(scheduled_time='2027-01-01')", *_TASK, "a datetime is needed, got"
    ),
    Misuse(
        "time as float",
        "task(scheduled_time=1.8e9)",
        *_TASK,
        "a datetime is needed, got 1800000000.0",
    ),
    Misuse("number as id", "task(ordering_id=7)", *_TASK, "ordering_id: a text is needed"),
    Misuse("empty id", "task(ordering_id='')", *_TASK, "a text that is not empty is needed"),
    Misuse("no key", "task(uniqueness_key=None)", *_TASK, "uniqueness_key: "),
    Misuse("by position", "Task('a', NOW, 'x')", "TypeError", None, "positional argument"),
    Misuse("missing field", "Task(ordering_id='a')", *_TASK, "scheduled_time: it is missing"),
    Misuse(
        "unknown field",
        "task(dta={})",
        *_TASK,
        "dta: there is no such name here; did you mean data?",
    ),
    Misuse("list as data", "task(data=[1])", *_TASK, "data: a dictionary is needed"),
    Misuse("number as name", "task(data={1: 2})", *_TASK, "data.1 as a name: a text is needed"),
    Misuse("time in data", "task(data={'x': NOW})", *_TASK, _JSON),
    Misuse("set in data", "task(data={'x': {1}})", *_TASK, _JSON + "{1}"),
    Misuse("tuple in data", "task(data={'x': (1, 2)})", *_TASK, _JSON + "(1, 2)"),
    Misuse("bytes in data", "task(data={'x': b'q'})", *_TASK, _JSON + "b'q'"),
    Misuse("decimal", "task(data={'x': decimal.Decimal('1.5')})", *_TASK, _JSON + "Decimal('1.5')"),
    Misuse("UUID in data", "task(data={'x': uuid.uuid4()})", *_TASK, _JSON + "UUID("),
    Misuse("object in data", "task(data={'x': object()})", *_TASK, _JSON + "<object"),
    Misuse(
        "not a number",
        "task(data={'x': float('nan')})",
        *_TASK,
        "not infinite or NaN is needed, got nan",
    ),
)

_REQUESTS = (
    Misuse(
        "huge data",
        "client.schedule_task(task(data={'x': 'y' * 2_000_000}))",
        "TaskTooLarge",
        "task-too-large",
        "schedule a reference to it",
    ),
    Misuse(
        "an hour ago",
        "client.schedule_task(task(scheduled_time=NOW - timedelta(hours=1)))",
        "TaskInThePast",
        "task-in-the-past",
        "schedule it for now instead",
    ),
    Misuse("dict for Task", "client.schedule_task({'a': 1})", *_TASK, "a Task is needed, got dict"),
    Misuse("one for many", "client.schedule_tasks(task())", *_TASK, "schedule_tasks([task])"),
    Misuse("dicts", "client.schedule_tasks([{}]).raise_if_rejected()", *_TASK, "a Task is needed"),
    Misuse("text as key", "client.cancel_task('t,a,b')", *_KEY, "TaskKey.parse reads a key's text"),
    Misuse("task as key", "client.cancel_task(task())", *_KEY, "a TaskKey is needed"),
    Misuse("tuple as key", "client.cancel_task((1, 'a', 'b'))", *_KEY, "got (1, 'a', 'b')"),
    Misuse("key's text", "TaskKey.parse('nonsense')", *_KEY, "'nonsense' is not a task key"),
    Misuse(
        "to naive time",
        "client.reschedule_task(task().key, datetime.now())",
        *_TASK,
        "has no time zone; write datetime.now(UTC)",
    ),
    Misuse(
        "to a duration",
        "client.reschedule_task(task().key, timedelta(hours=1))",
        *_TASK,
        "a datetime with a time zone is needed",
    ),
    Misuse("outcome of key", "client.outcome(task().key)", *_KEY, "a Receipt is needed"),
    Misuse("every 5", "client.schedule_recurring('x', every=5)", *_TASK, "a timedelta is needed"),
    Misuse(
        "empty name",
        "client.schedule_recurring('', every=timedelta(seconds=5))",
        *_TASK,
        "has a name of 1 to 1000 characters",
    ),
    Misuse(
        "no rule",
        "client.schedule_recurring('x')",
        *_TASK,
        "recurring schedule: it says no time: give cron or every",
    ),
    Misuse(
        "bad cron",
        "client.schedule_recurring('x', cron='61 * * * *')",
        *_TASK,
        "cron: this is not a cron expression: Bad minute",
    ),
    Misuse(
        "bad zone",
        "client.schedule_recurring('x', cron='* * * * *', time_zone='Berln')",
        *_TASK,
        "time_zone: no time zone of that name is known",
    ),
    Misuse(
        "no such schedule",
        "client.pause_recurring('nope')",
        "NoSuchSchedule",
        "no-such-schedule",
        "there is no recurring schedule 'nope'",
    ),
    Misuse(
        "closed client",
        "c = SchedulerClient(settings())\nc.close()\nc.schedule_task(task())",
        "NodeStopped",
        "node-stopped",
        "this client is closed; open another one",
    ),
)

_EXECUTORS = (
    Misuse("instance", "scheduler(Fine())", *_EXECUTOR, "an instance of Fine: pass the class"),
    Misuse("takes a task", "scheduler(lambda task: None)", *_EXECUTOR, "missing a required arg"),
    Misuse("makes none", "scheduler(lambda: None)", *_EXECUTOR, "expected a TaskExecutor"),
    Misuse("print", "scheduler(print)", *_EXECUTOR, "expected a TaskExecutor"),
    Misuse("text", "scheduler('module:Name')", *_EXECUTOR, "expected a TaskExecutor class"),
    Misuse(
        "no execute",
        "class No(TaskExecutor):\n    pass\nscheduler(No)",
        *_EXECUTOR,
        "does not define execute",
    ),
    Misuse(
        "constructor",
        "scheduler(klass(__init__=lambda self, db: None))",
        *_EXECUTOR,
        "missing a required argument: 'db'",
    ),
    Misuse(
        "execute()",
        "scheduler(klass(execute=lambda self: None))",
        *_EXECUTOR,
        "Made.execute cannot take one task",
    ),
    Misuse(
        "generator",
        "def each(self, task):\n    yield 1\nscheduler(klass(execute=each))",
        *_EXECUTOR,
        "Made.execute yields",
    ),
    Misuse(
        "not a subclass",
        "class Other:\n    pass\nscheduler(Other)",
        *_EXECUTOR,
        "write class Other(TaskExecutor)",
    ),
    Misuse("retry", "scheduler(klass(retry=5))", *_EXECUTOR, "retry is 5, a RetryPolicy is needed"),
    Misuse("timeout", "scheduler(klass(timeout=30))", *_EXECUTOR, "timeout is 30, a timedelta"),
    Misuse("no attempts", "RetryPolicy(attempts_max=0)", "ValueError", None, "1 to 2147483647"),
    Misuse(
        "end", "RetryPolicy(on_exhausted='ignore')", "ValueError", None, "known are skip, block"
    ),
    Misuse("wait", "RetryPolicy(wait=5)", "TypeError", None, "a tenacity wait strategy is needed"),
    Misuse("after", "Retry(after=5)", "TypeError", None, "as timedelta(seconds=5)"),
    Misuse("before", "Retry(after=timedelta(seconds=-1))", "ValueError", None, "after="),
    Misuse("reason", "Drop(5)", "TypeError", None, "Drop(5): a reason is text"),
)

_INSTALLATIONS = (
    Misuse("setting", "Settings(storage='x')", *_SETTINGS, "storage: there is no such name here"),
    Misuse("store", "Settings(store='sqlite')", *_SETTINGS, "store: 'embedded', 'cassandra' or"),
    Misuse(
        "group",
        "Settings(embedded={'foldr': 'm'})",
        *_SETTINGS,
        "embedded.foldr: there is no such name here; did you mean folder?",
    ),
    Misuse("file", "Settings(config_file='none.toml')", *_SETTINGS, "none.toml"),
    Misuse("no settings", "SchedulerClient()", "TypeError", None, "'settings'"),
    Misuse(
        "dict", "SchedulerClient({'log': 'x'})", *_SETTINGS, "write Settings(...), or Settings(**"
    ),
    Misuse(
        "node's dict", "Scheduler({}, executor=Fine)", *_SETTINGS, "a Settings is needed, got {}"
    ),
    Misuse(
        "missing extra",
        "SchedulerClient(Settings(log='kafka', store='cassandra'))",
        "DependencyMissing",
        "dependency-missing",
        "which is not installed: pip install ",
    ),
    Misuse(
        "folder is a file",
        "Path('file').touch()\nSchedulerClient(settings('file'))",
        "LogUnavailable",
        "log-unavailable",
        "embedded.folder must name a folder",
    ),
    Misuse(
        "no place for a folder",
        "SchedulerClient(settings('/proc/x'))",
        "LogUnavailable",
        "log-unavailable",
        "embedded.folder must name a folder",
    ),
    Misuse(
        "damaged",
        "Path('bad/log.db').write_bytes(b'?' * 9_999)\nSchedulerClient(settings('bad'))",
        "FolderDamaged",
        "folder-damaged",
        "restore the whole folder from a backup",
    ),
    Misuse(
        "second node",
        "with scheduler(Fine):\n    scheduler(Fine).start()",
        "FolderLocked",
        "folder-locked",
        "this process",
    ),
    Misuse(
        "start twice",
        "with scheduler(Fine) as node:\n    node.start()",
        "AlreadyStarted",
        "already-started",
        "start it once",
    ),
)

MISUSES = (*_TASKS, *_REQUESTS, *_EXECUTORS, *_INSTALLATIONS)
