"""The machine's clocks, told apart from what they are not."""

from datetime import UTC, datetime

from hourhand.scheduler.adapters.clock import SystemClock


def test_the_wall_clock_is_utc_milliseconds() -> None:
    """It lies between two looks at the same clock by another way."""
    before_ms = int(datetime.now(UTC).timestamp() * 1000)
    now_ms = SystemClock().now_ms()
    after_ms = int(datetime.now(UTC).timestamp() * 1000)

    assert before_ms <= now_ms <= after_ms + 1


def test_the_other_clock_never_goes_back_and_has_fractions() -> None:
    """A thousand looks are in order, and not all on whole milliseconds."""
    clock = SystemClock()
    looks = [clock.monotonic_ms() for _ in range(1_000)]

    assert looks == sorted(looks)
    assert any(look % 1 for look in looks)
