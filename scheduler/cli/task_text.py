"""Tasks as text: many in a table, one in full with its attempts.

Decides which facts a person sees, and in which order. JSON has all of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hourhand.actors.model.task.checkpoint_value import Progress
from hourhand.actors.model.task.status import AttemptRecord, AttemptResult, CompletionResult
from hourhand.actors.model.values.display import duration_text
from hourhand.actors.model.values.instant import parse_instant
from hourhand.scheduler.admin.answers import (
    ShownExecution,
    ShownLimit,
    ShownTask,
    ShownWait,
    instant_text,
)
from hourhand.scheduler.cli.rendering import as_json, facts_of
from hourhand.scheduler.cli.text_output import (
    cell_of,
    coloured,
    due_text,
    fact_lines,
    one_line,
    row_lines,
)
from hourhand.scheduler.tasks.inspector import TaskListing, TaskState, TaskView

_ERROR_CHARS_MAX = 80
_ENDS_SHOWN_MAX = 20
_BAR_CHARS = 20
_ENDED_WELL = frozenset(
    {TaskState.SUCCESS, TaskState.CANCELLING, TaskState.CANCELLED, TaskState.MOVED}
)


def listing_lines(listing: TaskListing, now_ms: int) -> Iterator[str]:
    """Yield a page of tasks, one a line, under a heading; empty columns are left out.

    The error is the last attempt's; tasks that ended well have none.
    """
    rows = [
        {
            "state": view.state.value,
            "due": due_text(view.key.scheduled_ms, now_ms),
            "attempts": _attempts(view),
            "kind": None if view.task is None else view.task.kind,
            "key": str(view.key),
            "error": None if view.state in _ENDED_WELL else last_error(view),
        }
        for view in listing.tasks
    ]
    needed = {name for row in rows for name, value in row.items() if value is not None}
    columns = ("state", "due", "attempts", "kind", "key", "error")
    yield from row_lines(rows, [each for each in columns if each in needed])


def view_lines(
    view: TaskView,
    now_ms: int,
    running: ShownExecution | None = None,
    limited: ShownLimit | None = None,
    waits: Sequence[ShownWait] = (),
    *,
    data_chars_max: int | None = None,
) -> Iterator[str]:
    """Yield a task, one fact a line; its attempts and the reasons for waiting come last.

    Data is cut after ``data_chars_max`` characters.
    """
    value = facts_of(ShownTask.of(view))
    closed = value.get("completion")
    due = f"{cell_of('due', value['scheduledTime'])}, {due_text(view.key.scheduled_ms, now_ms)}"
    facts = {
        "state": value["state"],
        "key": value["key"],
        "due": due,
        "kind": value.get("kind"),
        "priority": value.get("priority"),
        "expires": value.get("expires"),
        "then": _then(value.get("then")),
        "after": _after(value.get("after")),
        "orderingId": value["orderingId"],
        "uniquenessKey": value["uniquenessKey"],
        "partition": value["partition"],
        "offset": value.get("offset"),
        "data": _data(value, data_chars_max),
        "progress": _progress(value.get("checkpoint")),
        "checkpoint": _checkpoint(value.get("checkpoint"), data_chars_max),
        "result": _result(value.get("result"), data_chars_max),
        "running": None if running is None else _runs(running, now_ms),
        "limited": None if limited is None else _waits_for(limited),
        **({} if closed is None else _closed(closed, runs=running is not None)),
    }
    yield from fact_lines({name: fact for name, fact in facts.items() if fact is not None})
    for attempt in view.attempts:
        yield from _attempt_lines(attempt, _unknown_end(view, attempt))
    yield from wait_lines(waits)


def _then(then: Mapping[str, Any] | None) -> str | None:
    """Return the follower of a task, and when it comes."""
    if then is None:
        return None
    return f"{then['key']}, once it has {'succeeded' if then['on'] == 'success' else 'ended'}"


def _after(ends: Sequence[Mapping[str, Any]] | None) -> str | None:
    """Return how the tasks ended that a task follows."""
    if ends is None:
        return None
    shown = [f"{end['key']} ({end['state']})" for end in ends[:_ENDS_SHOWN_MAX]]
    more = len(ends) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _data(task: Mapping[str, object], chars_max: int | None) -> object:
    """Return a task's data as text, cut; for sealed data the way it is sealed."""
    if "taskData" not in task:
        return task.get("sealed")
    return _cut(as_json(task["taskData"]), chars_max)


def _cut(text: str, chars_max: int | None) -> str:
    if chars_max is None or len(text) <= chars_max:
        return text
    return f"{text[:chars_max]}… ({len(text):,} characters; --all shows them)"


def _progress(checkpoint: Mapping[str, Any] | None) -> str | None:
    """Return how far a task is as a bar; None where its checkpoint does not say."""
    if checkpoint is None or "done" not in checkpoint:
        return None
    share = Progress(checkpoint["done"], checkpoint["total"]).share
    filled = int(share * _BAR_CHARS)
    bar = "#" * filled + "." * (_BAR_CHARS - filled)
    return f"[{bar}] {_share(checkpoint)}"


def _share(checkpoint: Mapping[str, Any]) -> str:
    done, total = checkpoint["done"], checkpoint["total"]
    return f"{int(100 * Progress(done, total).share)} %, {done:,g} of {total:,g}"


def checkpoint_text(
    checkpoint: Mapping[str, Any] | None, now_ms: int, *, is_stuck: bool
) -> str | None:
    """Return how far an attempt that runs is, and how long ago it said so; None where it has made
    no checkpoint and need not.
    """
    said = []
    if checkpoint is not None:
        said += [_share(checkpoint)] if "done" in checkpoint else []
        ran_ms = run_ms(checkpoint.get("made"), now_ms)
        said += [] if ran_ms is None else [f"{duration_text(ran_ms)} ago"]
    if is_stuck:
        said.append("stuck")
    return ", ".join(said) or None


def _checkpoint(checkpoint: Mapping[str, Any] | None, chars_max: int | None) -> str | None:
    """Return the newest checkpoint in words, its value cut."""
    if checkpoint is None:
        return None
    made = cell_of("made", checkpoint["made"]) if "made" in checkpoint else "?"
    said = f"attempt {checkpoint['attempt']} at {made}"
    if "sealed" in checkpoint:
        return f"{said}: {checkpoint['sealed']}"
    return f"{said}: {_cut(as_json(checkpoint['value']), chars_max)}"


def _result(result: Mapping[str, Any] | None, chars_max: int | None) -> str | None:
    """Return the value that a task ended with, cut, and until when it is kept."""
    if result is None:
        return None
    until = cell_of("keptUntil", result["keptUntil"]) if "keptUntil" in result else "?"
    if result["gone"]:
        return f"kept until {until}, and forgotten since"
    said = result["sealed"] if "sealed" in result else _cut(as_json(result["value"]), chars_max)
    return f"{said}, kept until {until}"


def wait_lines(waits: Sequence[ShownWait]) -> Iterator[str]:
    """Yield the reasons why a task does not run, each with a command that helps."""
    for each in waits:
        yield f"waits: {one_line(each.told)}"
        if each.command:
            yield f"    {each.command}"


def run_ms(started: str | None, now_ms: int) -> int | None:
    """Return for how long code has run that was called at ``started``, in milliseconds."""
    return None if started is None else max(0, now_ms - parse_instant(started))


_WHERE = {
    "thread": " in a thread",
    "loop": " on the event loop",
    "process": " in a process",
    "batch": " in a batch",
}


def _runs(running: ShownExecution, now_ms: int) -> str:
    """Return where an attempt runs and for how long, in words."""
    ran_ms = run_ms(running.started, now_ms)
    told = "" if ran_ms is None else f", for {cell_of('forMs', ran_ms)}"
    where = _WHERE.get(running.where or "", "")
    stuck = ", stuck" if running.stuck else ""
    return f"attempt {running.attempt} on {running.node}{where}{told}{stuck}"


def _waits_for(limited: ShownLimit) -> str:
    """Return the limit that a task waits for, in words."""
    whose = f" of {limited.value!r}" if limited.value else ""
    return f"by {limited.limit}{whose} since {limited.since} on {limited.node}"


def last_error(view: TaskView) -> str | None:
    """Return class and message of the last attempt's error, cut; None where there was none."""
    return cut_error(_error(view.attempts[-1]) if view.attempts else "")


def cut_error(error: str) -> str | None:
    """Return class and message of an error for a cell, cut; None where there was none."""
    return f"{error[: _ERROR_CHARS_MAX - 1]}…" if len(error) > _ERROR_CHARS_MAX else error or None


def _attempts(view: TaskView) -> int:
    closed = view.completion.attempts if view.completion else 0
    return max([closed, *(attempt.attempt for attempt in view.attempts)])


def _closed(completion: Mapping[str, object], *, runs: bool) -> dict[str, str]:
    """Return in words why a key is closed, or that it was opened again."""
    attempts, result = completion["attempts"], completion["result"]
    said = [f"after {attempts} attempt{'' if attempts == 1 else 's'}"]
    if runs and attempts:
        said = [f"while attempt {attempts} runs"]
    elif not attempts:
        said = ["before its first attempt"]
    is_open = result == CompletionResult.REOPENED
    if not is_open:
        said[0] = f"{result} {said[0]}"
    for name, word in (("finished", "at"), ("movedTo", "moved to"), ("reason", "because:")):
        if name in completion:
            said.append(f"{word} {cell_of(name, completion[name])}")
    return {"openedAgain" if is_open else "closed": ", ".join(said)}


def _unknown_end(view: TaskView, attempt: AttemptRecord) -> str | None:
    """Return that the end of an attempt is not known, and whether it counts; else None."""
    if attempt.result is not AttemptResult.STARTED:
        return None
    is_last = attempt is view.attempts[-1]
    if is_last and view.state in {TaskState.RUNNING, TaskState.CANCELLING}:
        return None
    return f"its end is not known, {'counts' if attempt.suspect else 'does not count'}"


def _attempt_lines(attempt: AttemptRecord, unknown_end: str | None) -> Iterator[str]:
    started, finished = attempt.started_ms, attempt.finished_ms
    parts = [cell_of("started", instant_text(started))]
    if finished is not None:
        parts.append(f"took {cell_of('tookMs', max(0, finished - started))}")
    if attempt.next_attempt_ms is not None:
        parts.append(f"next attempt {cell_of('next', instant_text(attempt.next_attempt_ms))}")
    if attempt.snoozed:
        parts.append(f"snoozed {attempt.snoozed} time{'' if attempt.snoozed == 1 else 's'}")
    parts.append(f"fence {attempt.fence}")
    if unknown_end is not None:
        parts.append(unknown_end)
    result = attempt.result.value
    yield f"attempt {attempt.attempt}: {coloured(result, result)}, {', '.join(parts)}"
    if error := _error(attempt):
        yield f"    {error}"
    for line in (attempt.error_stack or "").splitlines():
        yield f"    {one_line(line)}"


def _error(attempt: AttemptRecord) -> str:
    """Return class and message of an attempt's error in one line; empty without one."""
    if attempt.error_class is None:
        return ""
    told = f": {attempt.error_message}" if attempt.error_message else ""
    return one_line(f"{attempt.error_class}{told}".replace("\n", " "))
