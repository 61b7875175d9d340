"""Binds the clock contract to the machine's clock and to the virtual one."""

import time

import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.scheduler.adapters.clock import SystemClock
from tests.conformance.clock import ClockContract


class TestSystemClock(ClockContract):
    """The machine's clocks."""

    @pytest.fixture
    def clock(self) -> SystemClock:
        """Return the machine's clock."""
        return SystemClock()

    def test_the_wall_clock_is_the_machines(self, clock: SystemClock) -> None:
        """Cut, not rounded: never ahead of the machine's own."""
        before_ms = time.time_ns() // 1_000_000  # noqa: TID251 - what it is compared with
        read_ms = clock.now_ms()
        after_ms = time.time_ns() // 1_000_000  # noqa: TID251

        assert before_ms <= read_ms <= after_ms


class TestVirtualClock(ClockContract):
    """The clock of the test kit."""

    @pytest.fixture
    def clock(self) -> VirtualClock:
        """Return a virtual clock."""
        return VirtualClock()

    def test_both_parts_move_only_when_told(self, clock: VirtualClock) -> None:
        """By as much as was said."""
        wall_ms, monotonic_ms = clock.now_ms(), clock.monotonic_ms()

        clock.advance(1_500)

        assert clock.now_ms() == wall_ms + 1_500
        assert clock.monotonic_ms() == monotonic_ms + 1_500

    def test_a_stepped_wall_clock_leaves_the_other_alone(self, clock: VirtualClock) -> None:
        """That is what happens when an operator sets the clock."""
        wall_ms, monotonic_ms = clock.now_ms(), clock.monotonic_ms()

        clock.step_wall(-60_000)

        assert clock.now_ms() == wall_ms - 60_000
        assert clock.monotonic_ms() == monotonic_ms
