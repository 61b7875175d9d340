"""Commands of ``hourhand`` that write: schedule a task, or change one that waits.

Each appends to the log and prints the record's place. A command also waits for its outcome and
prints it; only this part needs a running node. A command is written to the audit log first, as the
admin API's acts are; scheduling is not an operator's act.
"""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
import re
import shlex
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from hourhand.actors.model.task.key import TaskKey, parse_name
from hourhand.actors.model.task.priority import PRIORITY_MAX
from hourhand.actors.model.task.status import CommandOutcome, RecordedOutcome
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import HourhandError, InvalidTask, LogUnavailable
from hourhand.actors.model.values.instant import from_millis
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler import wiring
from hourhand.scheduler.admin.acting import Action
from hourhand.scheduler.admin.answers import ShownOutcome, ShownReceipt
from hourhand.scheduler.admin.outcome_words import words_of
from hourhand.scheduler.cli import task_input
from hourhand.scheduler.cli.failing import EXIT_CALLER, EXIT_UNDECIDED, say
from hourhand.scheduler.cli.operating import ReasonOption, act_on_tasks, operator_service
from hourhand.scheduler.cli.rendering import OutputFormat, as_json
from hourhand.scheduler.cli.session import ResultOptions, command_session
from hourhand.scheduler.cli.text_output import print_text
from hourhand.scheduler.client.client import ScheduleCall, SchedulerClient
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.runtime.awaiting import Answer
from hourhand.scheduler.tasks.admission import checked_end
from hourhand.scheduler.tasks.receipt import CommandReceipt

KeyArgument = Annotated[
    str,
    typer.Argument(
        metavar="KEY", help="TIME,ORDERING_ID,UNIQUENESS_KEY: as `schedule` and `list` print it."
    ),
]
NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="Its key, TIME,ORDERING_ID,UNIQUENESS_KEY, or ORDERING_ID,UNIQUENESS_KEY for the one"
        " open task that has both.",
    ),
]
WaitOption = Annotated[
    float,
    typer.Option("--wait", min=0, metavar="SECONDS", help="Time to wait for the outcome."),
]


_ACKNOWLEDGED_MARGIN_S = 10
_EFFECTIVE = frozenset({CommandOutcome.APPLIED, CommandOutcome.RUNNING, CommandOutcome.CANCELLED})
_PROGRESS_MS = 1_000
_LINES_SHOWN_MAX = 20


@dataclass(frozen=True, kw_only=True)
class TaskOptions(ResultOptions):
    """One task, or a file of them."""

    ordering_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Tasks of one ordering id run one at a time, in order."),
    ] = None
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="Kind of the task: chooses the executor if nodes have several."
        ),
    ] = None
    priority: Annotated[
        int | None,
        typer.Option(
            min=-PRIORITY_MAX,
            max=PRIORITY_MAX,
            metavar="N",
            help="Among due tasks the highest starts first; default: the kind's priority.",
        ),
    ] = None
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Never start it from then on: RFC 3339, or a duration after its time: 1h30m.",
        ),
    ] = None
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time: RFC 3339 with a zone, +2h, or now.")
    ] = None
    delay: Annotated[
        str | None, typer.Option("--in", metavar="DURATION", help="Delay from now: 10s, 1h30m.")
    ] = None
    uniqueness_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="Distinguishes tasks of the same id and time; random by default."
        ),
    ] = None
    data: Annotated[
        str, typer.Option(metavar="JSON", help="A JSON object, or @file, or @- for stdin.")
    ] = "{}"
    unique_for: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Ignore a call that comes less than this after one that made a task.",
        ),
    ] = None
    debounce: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Make the task of the last call once no call came for this time.",
        ),
    ] = None
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Take the place of the open task with the same ordering id and uniqueness key.",
        ),
    ] = False
    then: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="The task that follows once it has ended, or all of --from-file have: a line of"
            " such a file, or @file, or @- for stdin.",
        ),
    ] = None
    on: Annotated[
        str, typer.Option(metavar="END", help="The ends that bring the follower: success, or any.")
    ] = "success"
    from_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Many tasks: a JSON object a line; - is stdin."),
    ] = None

    def follower(self) -> Task | None:
        """Return the task that follows; InvalidTask if the options do not make one."""
        if self.then is None:
            if self.on != "success":
                raise InvalidTask("--on is for --then, which is missing")
            return None
        if self.then == "@-" and "-" in (self.from_file, self.data.removeprefix("@")):
            raise InvalidTask("standard input is read once: give --then as text or @file")
        return task_input.parse_follower(self.then)

    def window(self) -> ScheduleCall:
        """Return the window in which calls for the same ids become one task; InvalidTask if options
        clash.
        """
        named = {
            "--unique-for": self.unique_for,
            "--debounce": self.debounce,
            "--replace": self.replace or None,
        }
        if sum(given is not None for given in named.values()) > 1:
            raise InvalidTask(
                "--unique-for lets the first call win, --debounce the last one, and --replace moves"
                " the open task at once: give one of them"
            )
        for name, given in named.items():
            if given is not None and self.from_file is None and self.uniqueness_key is None:
                raise InvalidTask(
                    f"{name} is for calls with the same uniqueness key: give --uniqueness-key"
                )
        window: ScheduleCall = {"replace": True} if self.replace else {}
        if self.unique_for is not None:
            window["unique_for"] = _window_of(self.unique_for)
        if self.debounce is not None:
            window["debounce"] = _window_of(self.debounce)
        return window

    def refuse_fields(self) -> None:
        """Raise InvalidTask for options of one task, beside a file of tasks."""
        if (
            self.ordering_id
            or self.at
            or self.delay
            or self.uniqueness_key
            or self.kind
            or self.priority is not None
            or self.expires
            or self.data != "{}"
        ):
            raise InvalidTask("--from-file takes everything about its tasks from the file")

    def task(self, ordering_id: str, now_ms: int) -> Task:
        """Return the one task; InvalidTask if the options do not make one."""
        due_ms = task_input.due_ms(self.at, self.delay, now_ms, "--at and --in")
        key = uuid.uuid4().hex if self.uniqueness_key is None else self.uniqueness_key
        return Task(
            ordering_id=ordering_id,
            scheduled_time=from_millis(due_ms),
            uniqueness_key=key,
            data=task_input.parse_data(self.data),
            kind=self.kind,
            priority=self.priority,
            expires=None if self.expires is None else task_input.parse_expires(self.expires),
        )


def _window_of(text: str) -> timedelta:
    return timedelta(milliseconds=task_input.parse_duration_ms(text))


def schedule(
    *,
    given: TaskOptions,
) -> None:
    """Schedule a task, or a whole file of them.

    Prints the task's key when the log holds it durably.  A file has one task a line:
    {"orderingId":"customer-7","scheduledTime":"2026-02-09T01:41:12.959Z",
    "uniquenessKey":"invoice-42","taskData":{"invoice":42},"version":1}

    With --unique-for or --debounce, calls of the same kind, ordering id and uniqueness key become
    one task.  A node decides that, so the key that is printed is that of the request.  With
    --replace the task takes the place of the open one with the same two ids, whatever its time.

    With --then another task is scheduled once this one has ended, or once all tasks of the file
    have: at most 500 then, of which none is scheduled if one is refused.

    \b
    Examples:
      hourhand schedule --kind send-invoice --ordering-id customer-7 --in 10s --data '{"id": 42}'
      hourhand schedule --ordering-id customer-7 --at 2027-01-01T09:00:00+01:00 --data @task.json
      hourhand schedule --ordering-id page-4 --uniqueness-key index --at now --debounce 1m
      hourhand schedule --from-file tasks.jsonl
      hourhand schedule --from-file pages.jsonl --then @report.json --on any
    """
    with command_session(given) as settings:
        window, then = given.window(), given.follower()
        if given.from_file is not None:
            given.refuse_fields()
            if then is None:
                schedule_file(settings, given.from_file, given.output, window)
            else:
                _schedule_group(settings, given, then, window)
            return
        if given.ordering_id is None:
            raise InvalidTask("--ordering-id is missing (or --from-file for many tasks)")
        task = given.task(given.ordering_id, wiring.open_clock().now_ms())
        with SchedulerClient(settings) as client:
            on = checked_end(given.on)
            sent = client.schedule_task(task, **window, then=then, on=on)
            receipt = _acknowledged(sent, settings)
        if given.wants_json:
            typer.echo(as_json(ShownReceipt.of(receipt)))
        else:
            print_text(str(receipt.key))
        if given.replace:
            place = f"{receipt.partition}:{receipt.offset}"
            say(f"`hourhand outcome {place}` tells what the owner made of it")
        elif window:
            say(
                "this is the key of the request, which a node decides: `hourhand list"
                f" --ordering-id {shlex.quote(task.ordering_id)}` shows the task"
            )


def _schedule_group(
    settings: Settings, given: TaskOptions, then: Task, window: ScheduleCall
) -> None:
    """Schedule all tasks of a file, and the one that follows them; none if one is refused."""
    if window:
        raise InvalidTask(
            "--unique-for, --debounce and --replace are for tasks without a group: leave out --then"
        )

    def refuse(number: int, error: HourhandError) -> None:
        raise InvalidTask(f"line {number} is not a task, and nothing was scheduled: {error}")

    assert given.from_file is not None, "a group comes from a file"
    with _opened(given.from_file) as lines, SchedulerClient(settings) as client:
        tasks = task_input.read_tasks(lines, refuse)
        sent = client.group(tasks, then=then, on=checked_end(given.on))
        receipts = _acknowledged(sent, settings)
    if given.wants_json:
        shown = [ShownReceipt.of(each) for each in receipts]
        typer.echo(as_json({"receipts": shown, "then": str(then.key)}))
        return
    for each in receipts:
        print_text(str(each.key))
    say(f"{then.key} follows once all of them have ended")


@dataclass(frozen=True, kw_only=True)
class TaskActOptions(ResultOptions):
    """The options of a command that acts on one task."""

    wait: WaitOption = 5
    reason: ReasonOption = ""


def _act_on(
    settings: Settings,
    task: str,
    action: Action,
    given: TaskActOptions,
    to: datetime | None = None,
) -> None:
    """Send a command, wait for its outcome, print both; exit 2 if nothing changed, and 4 if no node
    decided in time.
    """
    parsed = parse_name(task)
    with operator_service(settings) as service:
        (tried,) = act_on_tasks(service, action, [parsed], to, given.reason, wait_s=given.wait)
    if tried.error is not None:
        raise tried.error
    receipt, outcome = tried.receipt, tried.outcome
    assert receipt is not None, "what was not refused was sent"
    print_outcome(receipt, outcome, given.output, action.value)
    if outcome is None:
        say(
            f"no node decided within {given.wait:g} s (is one running?); the command stays in the"
            f" log: ask again with `hourhand outcome {receipt.partition}:{receipt.offset}`"
        )
        if given.wait:
            raise typer.Exit(EXIT_UNDECIDED)
    elif outcome.outcome not in _EFFECTIVE:
        raise typer.Exit(EXIT_CALLER)


def _acting(action: Action, text: str) -> Callable[..., None]:
    """Return a command that needs only the task's name; ``text`` is its help."""

    def act(task: NameArgument, *, given: TaskActOptions) -> None:
        with command_session(given) as settings:
            _act_on(settings, task, action, given)

    act.__doc__ = text
    return act


def cancel(
    task: NameArgument,
    *,
    running: Annotated[
        bool, typer.Option("--running", help="Ask its code to end, too, where it runs.")
    ] = False,
    given: TaskActOptions,
) -> None:
    """Cancel a task, also one that runs.

    An attempt that already runs may end, and its outcome counts; no further one starts.  With
    --running a coroutine is cancelled, and code in a thread sees self.cancelled; its outcome no
    longer counts.  Waits for its end as long as --wait says: the outcome is cancelled then, or
    running if it still runs.  Scheduling the same key again later opens it again.

    \b
    Examples:
      hourhand cancel 2026-02-09T01:41:12.959Z,customer-7,invoice-42
      hourhand cancel customer-7,invoice-42 --running
    """
    with command_session(given) as settings:
        _act_on(settings, task, Action.CANCEL_RUNNING if running else Action.CANCEL, given)


run_now = _acting(
    Action.RUN_NOW,
    """Run a task now that waits for its time.

    Prints its new key, because the time is part of the key.

    \b
    Example:
      hourhand run-now 2026-02-09T01:41:12.959Z,customer-7,invoice-42
    """,
)
drop = _acting(
    Action.DROP,
    """Close a task for good without running it.

    A blocked ordering id goes on with its next task.

    \b
    Example:
      hourhand drop 2026-02-09T01:41:12.959Z,customer-7,invoice-42
    """,
)
retry = _acting(
    Action.RETRY,
    """Run a failed, dropped or blocked task again.

    With its data, which is kept for tree.watermark.failed_retention_ms after its end (7 days);
    data_gone says that this was longer ago.  Its attempts are counted from one again.  Many
    tasks: `hourhand list --state failure --act retry`, which also takes --kind, --error, --from
    and --to.

    \b
    Example:
      hourhand retry 2026-02-09T01:41:12.959Z,customer-7,invoice-42
    """,
)


def reschedule(
    task: NameArgument,
    *,
    to: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The new time: RFC 3339 with a zone, +2h, or now."),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option("--in", metavar="DURATION", help="The new time, from now: 10s, 1h30m."),
    ] = None,
    given: TaskActOptions,
) -> None:
    """Move a task to another time.

    Prints its new key, because the time is part of the key.

    \b
    Examples:
      hourhand reschedule 2026-02-09T01:41:12.959Z,customer-7,invoice-42 --in 2h
      hourhand reschedule 2026-02-09T01:41:12.959Z,customer-7,invoice-42 --to 2026-03-01T00:00:00Z
    """
    with command_session(given) as settings:
        now_ms = wiring.open_clock().now_ms()
        target = from_millis(task_input.due_ms(to, delay, now_ms, "--to and --in"))
        _act_on(settings, task, Action.RESCHEDULE, given, target)


def print_outcome(
    receipt: CommandReceipt | None,
    outcome: RecordedOutcome | None,
    output: OutputFormat,
    action: str = "",
) -> None:
    """Print the outcome of a command in a sentence, and suggest the next command.

    JSON has the outcome's own word, and the receipt where there is one.
    """
    shown = ShownOutcome.of(outcome, receipt)
    if output is OutputFormat.JSON:
        typer.echo(as_json(shown))
        return
    words = words_of(action, shown.outcome)
    print_text(f"{words.said}; its key is now {shown.new_key}" if shown.new_key else words.said)
    for each in shown.several or ():
        print_text(each)
    if words.next_step:
        key = outcome.key if outcome is not None else None
        say(words.next_step if key is None else _for_key(words.next_step, key))


def _for_key(next_step: str, key: TaskKey) -> str:
    """Return the suggested command with KEY and ID filled in, quoted for the shell."""
    named = {"KEY": shlex.quote(str(key)), "ID": shlex.quote(key.ordering_id)}
    return re.sub(r"\b(KEY|ID)\b", lambda found: named[found[0]], next_step)


def _acknowledged(future: "Future[Answer]", settings: Settings) -> Answer:
    timeout_s = settings.kafka.delivery_timeout_ms / 1000 + _ACKNOWLEDGED_MARGIN_S
    try:
        return future.result(timeout=timeout_s)
    except TimeoutError:
        raise LogUnavailable(f"the log did not acknowledge within {timeout_s:.0f} s") from None


def schedule_file(
    settings: Settings, name: str, output: OutputFormat, window: ScheduleCall | None = None
) -> None:
    """Schedule every task of a file (``-``: standard input); exit 2 if any is refused.

    With a window each line is a request, and accepted lines are counted as requests.
    """
    invalid_lines = 0

    def on_invalid(number: int, error: HourhandError) -> None:
        nonlocal invalid_lines
        invalid_lines += 1
        if invalid_lines <= _LINES_SHOWN_MAX:
            say(f"line {number} is not a task: {error}")

    shown = 0

    def on_rejected(task: Task, error: HourhandError) -> None:
        nonlocal shown
        shown += 1
        if shown <= _LINES_SHOWN_MAX:
            say(f"{task.key} is rejected: {error} [{error.code}]")

    with _opened(name) as lines, SchedulerClient(settings) as client:
        tasks = _with_progress(task_input.read_tasks(lines, on_invalid), wiring.open_clock())
        result = client.schedule_tasks(tasks, on_rejected, **(window or {}))
    rejected = result.rejected_count + invalid_lines
    if output is OutputFormat.JSON:
        typer.echo(as_json({"accepted": result.accepted, "rejected": rejected}))
    else:
        print_text(f"accepted {result.accepted}, rejected {rejected}")
    if result.interrupted_by is not None:
        raise result.interrupted_by
    if rejected:
        raise typer.Exit(EXIT_CALLER)


def _opened(name: str) -> BinaryIO:
    if name == "-":
        return sys.stdin.buffer
    try:
        return Path(name).open("rb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidTask(f"cannot read {name!r}: {reason}") from None


def _with_progress(tasks: Iterator[Task], clock: Clock) -> Iterator[Task]:
    """Print once a second how many tasks were read, so that a long load shows progress."""
    said_ms = clock.monotonic_ms()
    for count, task in enumerate(tasks, start=1):
        yield task
        if count % 1_000 == 0 and clock.monotonic_ms() - said_ms >= _PROGRESS_MS:
            said_ms = clock.monotonic_ms()
            say(f"{count} tasks read")
