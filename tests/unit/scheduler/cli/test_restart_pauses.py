"""Pauses between the lives of a process, from their lengths alone."""

import random

from hourhand.scheduler.cli.process_running import (
    PAUSE_MAX_MS,
    PAUSE_MIN_MS,
    STEADY_MS,
    RestartPauses,
)


def pauses_after(*lived_ms: float) -> list[float]:
    """Return the pause after each of these lives."""
    pauses = RestartPauses(random.Random(1))
    return [pauses.after(each) for each in lived_ms]


def test_a_pause_doubles_with_every_short_life_up_to_a_bound() -> None:
    """Half of each is at random, so that many children do not come back in step."""
    pauses = pauses_after(*[10.0] * 12)

    for number, pause_ms in enumerate(pauses):
        whole_ms = min(PAUSE_MIN_MS * 2**number, PAUSE_MAX_MS)
        assert whole_ms / 2 <= pause_ms <= whole_ms
    assert len(set(pauses)) == len(pauses)


def test_a_long_life_begins_anew() -> None:
    """What has run for long ends for a new reason."""
    *_, before, after = pauses_after(*[10.0] * 8, STEADY_MS)

    assert before > PAUSE_MAX_MS / 2 - 1
    assert after <= PAUSE_MIN_MS
