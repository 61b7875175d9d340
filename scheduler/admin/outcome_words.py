"""The one table of outcomes and their sentences for people.

Decides words and the next step, never an outcome. Programs read the outcome's code, which does not
change.
"""

from collections.abc import Mapping
from typing import NamedTuple


class OutcomeWords(NamedTuple):
    """The words for an outcome; they also read well behind a number of tasks."""

    said: str
    next_step: str = ""
    """The next step on the command line."""


_HOW_CLOSED = "`hourhand show KEY` shows how it ended"
_HOW_LONG = "`hourhand running` shows for how long it has run"
_STILL_RUNS = OutcomeWords(
    "cancelled while an attempt runs: it may end, and no further one starts",
    f"{_HOW_LONG}; `hourhand cancel KEY --running` asks it to end",
)
_ASKED_TO_END = OutcomeWords(
    "cancelled and asked to end: its code still runs, and no further attempt starts",
    f"{_HOW_LONG}, and where; only a stop of its node ends a thread that does not look at"
    " `self.cancelled`",
)
_ENDED = OutcomeWords(
    "cancelled, and its code has ended", "scheduling the same key again opens it again"
)
_RUNS_ALREADY = OutcomeWords("not changed: an attempt already runs", _HOW_LONG)
_CANCELLED = OutcomeWords(
    "cancelled, and will not run", "scheduling the same key again opens it again"
)
_OF_ANY: Mapping[str, OutcomeWords] = {
    "applied": OutcomeWords("done"),
    "deleted": OutcomeWords("ended"),
    "running": OutcomeWords(
        "an attempt runs: it may end, and no further one starts", _STILL_RUNS.next_step
    ),
    "cancelled": _ENDED,
    "too_late": OutcomeWords(
        "not moved: an attempt runs, or ran already",
        "`hourhand retry KEY` runs a task again at once that failed",
    ),
    "already_closed": OutcomeWords(
        "not changed: already closed",
        f"{_HOW_CLOSED}; `hourhand retry KEY` opens a task again that failed or was dropped",
    ),
    "unknown_key": OutcomeWords(
        "not found: nothing is stored under this key",
        "`hourhand list --ordering-id ID` lists what there is",
    ),
    "unknown_pair": OutcomeWords(
        "not found: no task has both ids, or its row was deleted",
        "`hourhand list --ordering-id ID` lists what there is",
    ),
    "several_tasks": OutcomeWords(
        "not changed: several tasks have both ids",
        "name one of them by its key",
    ),
    "still_open": OutcomeWords(
        "not changed: already open", "`hourhand show KEY` shows why it does not run yet"
    ),
    "ran_already": OutcomeWords("not opened: ended well", _HOW_CLOSED),
    "data_gone": OutcomeWords(
        "not opened: it ended too long ago, so its data is deleted",
        "`hourhand dead-letters` may have its letter, which has the data; else schedule the task"
        " again under another uniqueness key",
    ),
    "replayed": OutcomeWords(
        "opened again with the data of the letter", "`hourhand show KEY` shows its new state"
    ),
    "refused": OutcomeWords("refused"),
    "undecided": OutcomeWords("sent, and not decided yet: no node has read the command"),
    "unsent": OutcomeWords("not sent"),
}
_OF_ACTION: Mapping[tuple[str, str], OutcomeWords] = {
    ("cancel", "applied"): _CANCELLED,
    ("cancel", "running"): _STILL_RUNS,
    ("cancel-running", "applied"): _CANCELLED,
    ("cancel-running", "running"): _ASKED_TO_END,
    ("drop", "applied"): OutcomeWords(
        "closed for good without running", "`hourhand retry KEY` opens a dropped task again"
    ),
    ("retry", "applied"): OutcomeWords(
        "opened again with all attempts", "`hourhand show KEY` shows its new state"
    ),
    ("retry", "running"): _RUNS_ALREADY,
    ("replay", "running"): _RUNS_ALREADY,
    ("retry", "already_closed"): OutcomeWords(
        "not opened: cancelled or moved",
        f"{_HOW_CLOSED}; `hourhand schedule` takes its data again, at a time that is not past",
    ),
    ("replay", "already_closed"): OutcomeWords(
        "not opened: cancelled or moved",
        "`hourhand schedule` takes its data again, at a time that is not past",
    ),
    ("replay", "unknown"): OutcomeWords(
        "not found: there is no such dead letter", "`hourhand dead-letters` lists them"
    ),
    ("replay", "unreadable"): OutcomeWords(
        "not sent: the record cannot be read",
        "fix the program that writes it, and schedule the task again",
    ),
    ("run-now", "applied"): OutcomeWords("moved to now"),
    ("reschedule", "applied"): OutcomeWords("moved"),
    ("recurring set", "applied"): OutcomeWords("set"),
    ("recurring apply", "applied"): OutcomeWords("declared; its schedules follow"),
    ("recurring pause", "applied"): OutcomeWords(
        "paused", "`hourhand recurring resume NAME` ends that"
    ),
    ("recurring resume", "applied"): OutcomeWords("resumed"),
    ("recurring trigger", "applied"): OutcomeWords("one run is scheduled now"),
    ("recurring delete", "applied"): OutcomeWords("ended for good"),
    ("relay cancel", "applied"): OutcomeWords("cancelled, and will not be sent"),
    ("relay run-now", "applied"): OutcomeWords("sent now"),
    ("relay reschedule", "applied"): OutcomeWords("moved"),
}


def words_of(action: str, outcome: str) -> OutcomeWords:
    """Return the words for an outcome of an action; an unknown outcome gets its own code.

    ``action`` has one word for a task, and two for others: ``recurring pause``, ``relay cancel``.
    """
    if found := _OF_ACTION.get((action, outcome)):
        return found
    found = _OF_ANY.get(outcome) or OutcomeWords(outcome.replace("_", " ").replace("-", " "))
    # Only tasks have the commands that these next steps name.
    return found._replace(next_step="") if " " in action else found


def said_of(action: str, outcomes: Mapping[str, int]) -> list[str]:
    """Return one sentence for each outcome, the most frequent first."""
    ranked = sorted(outcomes.items(), key=lambda each: -each[1])
    return [f"{count}: {words_of(action, word).said}" for word, count in ranked]
