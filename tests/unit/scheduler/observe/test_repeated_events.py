"""Equal events are told once a second with their number, and none is lost without a word."""

import logging

import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.operations import events
from hourhand.actors.model.task.codec import CommandKind
from hourhand.actors.model.task.status import AttemptResult, CommandOutcome
from hourhand.actors.model.values.errors import PayloadInvalid
from hourhand.scheduler.adapters.telemetry import LoggingTelemetry
from hourhand.scheduler.observe.repeated_events import PAUSE_MS, SHAPES_MAX, RepeatedEvents
from tests.builders import NOW_MS, a_key

FAILURE = AttemptResult.FAILURE
FREED = events.WorkersFreed("threads", 7, 5)


def _failed(
    error: BaseException,
    number: int = 0,
    kind: str | None = "mail",
    result: AttemptResult = FAILURE,
) -> events.AttemptFailed:
    key = a_key(ordering_id=f"customer-{number}")
    return events.AttemptFailed(3, key, 1, result, 5, error, is_showable=True, kind=kind)


class Told:
    """A log that is told of events, under a clock that stands still."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "hourhand")
        self._caplog = caplog
        self.clock = VirtualClock(NOW_MS)
        self.telemetry = LoggingTelemetry(self.clock)

    def lines(self) -> list[str]:
        """Return what was logged since this was last asked."""
        found = [record.getMessage() for record in self._caplog.records]
        self._caplog.clear()
        return found


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    """A log at its usual level."""
    return Told(caplog)


def test_a_storm_is_a_line_a_second_with_the_number_of_the_others(told: Told) -> None:
    """Two thousand tasks fail because one service is away."""
    for number in range(2_000):
        told.telemetry.emit(_failed(ConnectionError(f"request {number} failed"), number))
    first = told.lines()
    told.clock.advance(PAUSE_MS)
    told.telemetry.emit(_failed(ConnectionError("request 2000 failed"), 2_000))

    assert len(first) == 1 and "request 0 failed" in first[0] and "suppressed" not in first[0]
    [line] = told.lines()
    assert line.startswith("AttemptFailed partition=3") and "customer-2000" in line
    assert line.endswith(" suppressed=1999")


def test_a_bulk_act_is_a_line_a_second_too(told: Told) -> None:
    """An operator brings back what failed in a night; the audit log has who and why."""
    for number in range(1_000):
        key = a_key(ordering_id=f"customer-{number}")
        outcome = CommandOutcome.APPLIED
        told.telemetry.emit(events.CommandDecided(3, key, CommandKind.RETRY, outcome))
    first = told.lines()
    told.clock.advance(PAUSE_MS)
    told.telemetry.emit(FREED)

    assert [line.split(" ")[0] for line in first] == ["CommandDecided"]
    _, counted = told.lines()
    assert counted.startswith("CommandDecided suppressed=999 kind=retry outcome=applied")


def test_the_number_is_told_a_second_after_the_last_one(told: Told) -> None:
    """With the next event of any kind: the storm may be over."""
    for number in range(5):
        told.telemetry.emit(_failed(KeyError("iban"), number))
    told.lines()
    told.telemetry.emit(FREED)
    early = told.lines()
    told.clock.advance(PAUSE_MS)
    told.telemetry.emit(FREED)

    assert [line.split(" ")[0] for line in early] == ["WorkersFreed"]
    freed, counted = told.lines()
    assert counted.startswith("AttemptFailed suppressed=4 ") and freed.startswith("WorkersFreed")


def test_each_number_is_told_a_second_after_its_own_line(told: Told) -> None:
    """A storm that began later has its number later, though nothing of it follows."""
    for kind in ("mail", "letter"):
        told.telemetry.emit(_failed(KeyError("iban"), kind=kind))
        told.telemetry.emit(_failed(KeyError("iban"), kind=kind))
        told.clock.advance(PAUSE_MS / 2)
    told.lines()

    found = []
    for _ in range(3):
        told.telemetry.emit(FREED)
        found.append([line for line in told.lines() if "suppressed=1" in line])
        told.clock.advance(PAUSE_MS / 2)

    assert [len(lines) for lines in found] == [1, 1, 0]
    assert "kind=mail" in found[0][0] and "kind=letter" in found[1][0]


def test_the_number_is_told_at_the_end(told: Told) -> None:
    """And only once."""
    for number in range(5):
        told.telemetry.emit(_failed(KeyError("iban"), number))
    told.lines()

    told.telemetry.close()
    told.telemetry.close()

    [line] = told.lines()
    assert line.startswith("AttemptFailed suppressed=4 kind=mail result=failure error=KeyError")
    assert "last_key=" in line and "customer-4" in line


def test_nothing_is_lost_without_a_word(told: Told) -> None:
    """Lines and numbers add up to what was emitted, whatever the pauses."""
    emitted, lines = 0, list[str]()
    for round_number in range(40):
        for number in range(round_number % 7):
            told.telemetry.emit(_failed(KeyError(f"iban {number}"), number, kind=f"k{number % 3}"))
            emitted += 1
        told.clock.advance(300)
    told.telemetry.close()
    lines = told.lines()
    suppressed = [
        int(part.removeprefix("suppressed="))
        for line in lines
        for part in line.split()
        if part.startswith("suppressed=")
    ]

    whole = [line for line in lines if " partition=" in line]
    assert len(whole) + sum(suppressed) == emitted


@pytest.mark.parametrize(
    "other",
    [
        _failed(KeyError("iban"), kind="letter"),
        _failed(LookupError("iban")),
        _failed(KeyError("name is missing")),
        _failed(KeyError("iban"), result=AttemptResult.TIMEOUT),
        events.AttemptStuck(3, a_key(), "timeout", 1_000),
    ],
)
def test_what_differs_in_kind_class_shape_or_result_is_told_apart(
    told: Told, other: events.AttemptFailed
) -> None:
    """Each of them is news."""
    told.telemetry.emit(_failed(KeyError(7)))
    told.telemetry.emit(other)

    assert len(told.lines()) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 17 is gone", "order 4711 is gone"),
        ("'customer-7' is unknown", "'customer-8' is unknown"),
        ("at 0x7f3a11 of 2026-01-01T00:00:00Z", "at 0x8c of 2027-02-03T04:05:06Z"),
        ("id 6ba7b810-9dad-11d1-80b4-00c04fd430c8", "id 16fd2706-8baf-433b-82eb-8c7fada847da"),
    ],
)
def test_messages_that_differ_in_values_alone_have_one_shape(
    told: Told, one: str, other: str
) -> None:
    """Numbers, times, ids and what is quoted."""
    told.telemetry.emit(_failed(ValueError(one)))
    told.telemetry.emit(_failed(ValueError(other)))

    assert len(told.lines()) == 1


def test_messages_that_all_differ_are_no_flood_and_no_leak(told: Told) -> None:
    """A message may hold anything an outsider wrote."""
    words = ["".join(chr(97 + (n // 26**place) % 26) for place in range(3)) for n in range(2_000)]
    for word in words:
        told.telemetry.emit(_failed(ValueError(f"{word} is wrong")))
    lines = told.lines()
    told.telemetry.close()

    assert len(lines) == SHAPES_MAX + 1
    assert f"suppressed={2_000 - SHAPES_MAX - 1}" in told.lines()[0]


def test_what_was_told_long_ago_makes_room(told: Told) -> None:
    """The next storm is told as the first one was."""
    seen = RepeatedEvents(told.clock.monotonic_ms)
    for word in range(SHAPES_MAX):
        assert seen.take(_failed(ValueError("x" * (word + 1))), logging.WARNING) == 0
    told.clock.advance(PAUSE_MS)

    assert seen.take(_failed(ValueError("new")), logging.WARNING) == 0
    assert seen.take(_failed(ValueError("newer")), logging.WARNING) == 0


def test_lines_for_each_task_are_all_told_at_debug(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    """Who turns a role up wants to see each."""
    caplog.set_level(logging.DEBUG, "hourhand")
    for _ in range(5):
        told.telemetry.emit(events.AttemptFinished(3, a_key(), 1, AttemptResult.SUCCESS, 5, NOW_MS))

    assert len(told.lines()) == 5


def test_a_stop_is_not_a_line_for_each_task_that_waits(told: Told) -> None:
    """Five hundred of them are refused when a node stops."""
    for number in range(500):
        told.telemetry.emit(events.AttemptRefused(3, a_key(ordering_id=f"c{number}")))
    told.telemetry.close()

    assert told.lines() == []


def test_a_wanted_outcome_is_not_a_warning(told: Told, caplog: pytest.LogCaptureFixture) -> None:
    """That of ``drop_on``; at DEBUG it is told without a stack."""
    wanted = _failed(KeyError("gone"), result=AttemptResult.DROPPED)
    told.telemetry.emit(wanted)
    usual = told.lines()
    caplog.set_level(logging.DEBUG, "hourhand")
    told.telemetry.emit(wanted)

    assert usual == []
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG and record.exc_info is None


def test_a_payload_that_does_not_fit_is_one_line(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    """No code of the user's ran, so there is no stack to show."""
    try:
        raise PayloadInvalid("the data does not fit Invoice: id: it is missing")
    except PayloadInvalid as error:
        # As where only frames of Hourhand lead to it.
        told.telemetry.emit(_failed(error.with_traceback(None)))

    (record,) = caplog.records
    assert record.exc_info is None and record.exc_text is None
    assert "the data does not fit Invoice" in record.getMessage()
