"""What the demonstrations of relay and timers find wrong: each planted fault fails its check."""

from collections.abc import Callable

import pytest

from examples.demo_doors import relay, timers
from examples.demo_doors.relay import Seen, Sent
from examples.demo_doors.timers import Asked, Pop

KILLED_S = 1_000.0
REASONS = ["no headers"] * 5


def a_run() -> tuple[Sent, list[Seen]]:
    """Return what was sent, and what appeared of it: everything, as it should."""
    sent = Sent()
    for number in range(10):
        due_ms = 900_000 + number
        sent.due_ms[number] = due_ms
        sent.content[number] = (b"k", b"v%d" % number, [])
    sent.groups[b"k"] = list(range(10))
    sent.never = {77}
    seen = [Seen(number, 900_000 + number, b"k", b"v%d" % number, []) for number in range(10)]
    return sent, seen


def broken(sent: Sent, seen: list[Seen], letters: list[str] | None = None) -> list[str]:
    """Return the checks that fail."""
    checks = relay.judge(sent, seen, KILLED_S, REASONS if letters is None else letters)
    return [check.what for check in checks if not check.holds]


def test_a_good_run_of_the_relay_passes() -> None:
    """A message that was in flight at the kill may appear twice."""
    sent, seen = a_run()
    sent.due_ms[3] = 990_000
    seen[3].appended_ms = 999_000
    seen = [*seen[:3], *seen[4:], seen[3], seen[3]]
    sent.groups.clear()

    assert broken(sent, seen) == []


def _twice(seen: list[Seen]) -> None:
    seen.append(seen[0])


def _lose(seen: list[Seen]) -> None:
    del seen[4]


def _hurry(seen: list[Seen]) -> None:
    seen[5].appended_ms -= 1


def _change(seen: list[Seen]) -> None:
    seen[6].value = b"other"


def _swap(seen: list[Seen]) -> None:
    seen[7], seen[8] = seen[8], seen[7]


def _intrude(seen: list[Seen]) -> None:
    seen.append(Seen(77, 950_000, b"x", b"", []))


@pytest.mark.parametrize(
    ("plant", "check"),
    [
        (_twice, "twice: for no such reason"),
        (_lose, "missing"),
        (_hurry, "early"),
        (_change, "not byte for byte"),
        (_swap, "out of order within key and deadline"),
        (_intrude, "appeared, though cancelled or of a waiting id"),
    ],
)
def test_each_fault_of_the_relay_is_found(plant: Callable[[list[Seen]], None], check: str) -> None:
    """And nothing else is blamed."""
    sent, seen = a_run()
    plant(seen)

    assert broken(sent, seen) == [check]


def test_malformed_messages_must_be_put_aside() -> None:
    """All of them."""
    sent, seen = a_run()

    assert broken(sent, seen, REASONS[1:]) == ["malformed: dead-lettered, with a reason"]


GOOD = [Pop("a", 1, 900.0), Pop("a", 2, 990.0), Pop("a", 2, 1_010.0)]


@pytest.mark.parametrize(
    ("pops", "check"),
    [
        (GOOD, None),
        (GOOD[1:], "distinct pops (timer, number)"),
        ([*GOOD, Pop("b", 1, 950.0)], "nobody asked for"),
        ([*GOOD, Pop("gone", 1, 950.0)], "of a timer that was deleted or replaced"),
        ([Pop("a", 1, 899.9), *GOOD[1:]], "early"),
        ([*GOOD, GOOD[0]], "again, for no such reason"),
    ],
)
def test_each_fault_of_the_timers_is_found(pops: list[Pop], check: str | None) -> None:
    """And a good run passes, with a callback repeated that was in flight at the kill."""
    asked = Asked({("a", 1): 900.0, ("a", 2): 990.0}, {"gone"})

    found = [each.what for each in timers.judge(asked, pops, [KILLED_S]) if not each.holds]

    assert found == ([] if check is None else [check])
