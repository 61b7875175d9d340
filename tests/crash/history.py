"""The journal of killed processes as a history that the judge recounts."""

from collections.abc import Sequence
from dataclasses import replace

from tests.crash.journal import Event, Key
from tests.crash.load import ordering_of, uniqueness_of
from tests.judge.asked import unsettled
from tests.judge.causes import Rules
from tests.judge.history import Answer, Attempt, Blow, Command, Fault, History, How, Offer
from tests.judge.view import View

RULES = Rules(flush_s=30.0)
"""The machine is shared with other tests, and may be slow to write a completion."""
_ANSWERS: dict[str, Answer] = {
    "offered": "unknown",
    "acknowledged": "accepted",
    "committed": "committed",
    "withdrawn": "withdrawn",
}


def history_of(events: Sequence[Event], alive: int, how: How = "killed") -> History:
    """Return what processes wrote down, each of which ended that way but the one that is alive."""
    reader = _Reader(events)
    for event in events:
        reader.take(event)
    return History(
        [*reader.offers.values()],
        reader.attempts,
        [_end(run, at_us, how) for run, at_us in reader.last_us.items() if run != alive],
        reader.wall_minus_boot_us,
        [*reader.commands.values()],
        reader.begun_us,
    )


def _end(run: int, at_us: int, how: How) -> Fault:
    """Return the end of a process: when it had written its last line."""
    blow = Blow(how, run, run, at_us, at_us + 1, at_us + 1)
    return Fault(run, how, f"process {run}", "nodes", at_us, at_us + 1, at_us + 1, [blow])


class _Reader:
    """Puts together what lines say of one thing."""

    def __init__(self, events: Sequence[Event]) -> None:
        started = (event for event in events if event.kind == "started")
        first = next(started, Event("started", 0))
        self.wall_minus_boot_us = first.time_ms * 1_000 - first.at_us
        self.offers: dict[int, Offer] = {}
        self.commands: dict[int, Command] = {}
        self.attempts: list[Attempt] = []
        self.begun_us: dict[int, int] = {}
        self.last_us: dict[int, int] = {}
        self._running: dict[tuple[int, int], int] = {}

    def take(self, event: Event) -> None:
        """Take in one line."""
        run, number, at_us = event.run, event.key.number, event.at_us
        self.begun_us[run] = min(at_us, self.begun_us.get(run, at_us))
        self.last_us[run] = max(at_us, self.last_us.get(run, at_us))
        match event.kind:
            case "started":
                self._running[run, number] = len(self.attempts)
                self.attempts.append(_attempt(event))
            case "failed" | "ended":
                place, done = self._running.pop((run, number)), event.kind == "ended"
                self.attempts[place] = replace(self.attempts[place], ended_us=at_us, succeeded=done)
            case "intended":
                self.commands[number] = Command(uniqueness_of(number), event.word, None)
            case "told":
                self.commands[number] = replace(self.commands[number], told_us=at_us)
            case "outcome":
                outcome = "" if event.word == "undecided" else event.word
                self.commands[number] = replace(
                    self.commands[number], outcome=outcome, to_wall_us=event.time_ms * 1_000
                )
            case "stopping":
                pass
            case answer:
                self._answer(event.key, _ANSWERS[answer], at_us + self.wall_minus_boot_us)

    def _answer(self, key: Key, answer: Answer, wall_us: int) -> None:
        task_id, ordering_id = uniqueness_of(key.number), ordering_of(key.number)
        due_wall_us = key.scheduled_ms * 1_000
        self.offers[key.number] = Offer(
            task_id, ordering_id, due_wall_us, "plain", answer, answered_wall_us=wall_us
        )


def _attempt(event: Event) -> Attempt:
    return Attempt(
        task_id=uniqueness_of(event.key.number),
        ordering_id=ordering_of(event.key.number),
        due_wall_us=event.key.scheduled_ms * 1_000,
        number=1,
        fence=event.run,
        node=event.run,
        pid=event.run,
        thread=0,
        started_wall_us=event.time_ms * 1_000,
        started_us=event.at_us,
    )


class Remainder:
    """The tasks that must still end well, once the outcome of every command is known."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._left = unsettled(View(history_of(events, alive=0), RULES))
        self._taken = 0

    def read_on(self, growing: Sequence[Event]) -> bool:
        """Take in what was added since the last call; return whether any is left."""
        added = growing[self._taken :]
        self._taken += len(added)
        self._left -= {
            (uniqueness_of(event.key.number), event.key.scheduled_ms * 1_000)
            for event in added
            if event.kind == "ended"
        }
        return bool(self._left)
