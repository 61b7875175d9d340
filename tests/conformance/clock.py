"""The contract of every clock; bind it with a ``clock`` fixture in a ``ClockContract``."""

from hourhand.actors.ports.clock import Clock


class ClockContract:
    """The contract of ``hourhand.actors.ports.clock.Clock``."""

    def test_the_wall_clock_is_whole_milliseconds(self, clock: Clock) -> None:
        """A fraction would make two readings of one moment differ."""
        assert isinstance(clock.now_ms(), int)

    def test_the_wall_clock_lies_in_this_century(self, clock: Clock) -> None:
        """Seconds or microseconds by mistake would lie in another."""
        assert 946_684_800_000 < clock.now_ms() < 4_102_444_800_000

    def test_the_monotonic_clock_never_goes_back(self, clock: Clock) -> None:
        """Leases and timeouts are measured with it."""
        readings = [clock.monotonic_ms() for _ in range(1_000)]

        assert readings == sorted(readings)

    def test_the_monotonic_clock_has_fractions_or_none_to_show(self, clock: Clock) -> None:
        """It is a float, so that a delay below a millisecond can be told."""
        assert isinstance(clock.monotonic_ms(), float)
