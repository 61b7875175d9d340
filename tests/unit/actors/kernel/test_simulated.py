"""SimulatedSystem and VirtualClock: the same promises as the real dispatcher, without threads."""

import random

import pytest

from hourhand.actors.kernel.actor import Actor
from hourhand.actors.kernel.context import Look, Timer
from hourhand.actors.kernel.ref import Ref
from hourhand.actors.kernel.simulated import SimulatedSystem, VirtualClock


class Note(Actor):
    """Keeps what it is told; ``"boom"`` raises."""

    def __init__(self, told: list[object] | None = None) -> None:
        self.told: list[object] = [] if told is None else told

    def on_receive(self, message: object) -> None:
        if message == "boom":
            raise ValueError("boom")
        self.told.append(message)

    def after(self, delay_ms: float, message: object) -> Timer:
        """Let a test set a timer of this actor."""
        return self._context.after(delay_ms, message)


def _run(system: SimulatedSystem) -> None:
    while system.run_one():
        pass


def _system(rng: random.Random | None = None) -> tuple[SimulatedSystem, VirtualClock]:
    clock = VirtualClock()
    return SimulatedSystem(clock, lambda error: None, rng), clock


def test_messages_of_one_mailbox_keep_their_order() -> None:
    """First told, first handled."""
    system, _ = _system()
    note = Note()
    ref = system.spawn_root(note)

    for number in range(5):
        ref.tell(number)
    _run(system)

    assert note.told == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("seed", range(20))
def test_random_picking_keeps_the_order_of_each_mailbox(seed: int) -> None:
    """Only the order between actors is free."""
    system, _ = _system(random.Random(seed))
    told: list[object] = []
    refs = [system.spawn_root(Note(told)) for _ in range(3)]

    for number in range(10):
        for name, ref in enumerate(refs):
            ref.tell((name, number))
    _run(system)

    assert len(told) == 30
    for name in range(3):
        own = [message for message in told if isinstance(message, tuple) and message[0] == name]
        assert own == [(name, number) for number in range(10)]


@pytest.mark.parametrize("rng", [None, random.Random(1), random.Random(2)])
def test_what_is_told_first_passes_what_waits_and_keeps_its_order(
    rng: random.Random | None,
) -> None:
    """Of its own mailbox; the real dispatcher handles it at once."""
    system, _ = _system(rng)
    note = Note()
    ref = system.spawn_root(note)
    _run(system)

    for number in (1, 2):
        ref.tell(number)
    for urgent in ("a", "b"):
        ref.tell_first(urgent)
    ref.tell(3)
    _run(system)

    assert note.told == ["a", "b", 1, 2, 3]


@pytest.mark.parametrize("rng", [None, random.Random(1), random.Random(2)])
def test_what_is_told_last_waits_for_all_of_its_mailbox(rng: random.Random | None) -> None:
    """Also for what comes later."""
    system, _ = _system(rng)
    note = Note()
    ref = system.spawn_root(note)
    _run(system)

    ref.tell_last("last")
    for number in (1, 2):
        ref.tell(number)
    _run(system)

    assert note.told == [1, 2, "last"]


def test_random_picking_varies_the_order_between_actors() -> None:
    """Otherwise seeds would find nothing."""
    orders = set()
    for seed in range(10):
        system, _ = _system(random.Random(seed))
        told: list[object] = []
        for name in range(4):
            system.spawn_root(Note(told)).tell(name)
        _run(system)
        orders.add(tuple(told))

    assert len(orders) > 1


def test_nothing_to_do_is_said() -> None:
    """``run_one`` never waits."""
    system, _ = _system()

    assert not system.run_one() and system.next_timer_ms() is None


def test_timers_fire_in_order_of_their_times() -> None:
    """Those of one time in the order they were set."""
    system, clock = _system()
    note = Note()
    system.spawn_root(note)
    for delay_ms, message in ((30, "c"), (10, "a"), (30, "d"), (20, "b")):
        note.after(delay_ms, message)

    clock.advance(9.5)
    _run(system)
    early = list(note.told)
    clock.advance(100)
    _run(system)

    assert not early and note.told == ["a", "b", "c", "d"]


def test_a_cancelled_timer_does_not_fire() -> None:
    """And is not what the system waits for."""
    system, clock = _system()
    note = Note()
    system.spawn_root(note)
    timer = note.after(10, "no")
    note.after(20, "yes")

    timer.cancel()
    next_ms = system.next_timer_ms()
    clock.advance(30)
    _run(system)

    assert next_ms == 20 and note.told == ["yes"]


def test_a_timer_that_only_looks_is_not_a_deadline() -> None:
    """It fires in its turn among the others, and waits for nobody but the clock."""
    system, clock = _system()
    note, look = Note(), Look()
    system.spawn_root(note)
    _run(system)
    note.after(20, look)
    moments = [(system.next_timer_ms(), system.next_deadline_ms())]
    for delay_ms, message in ((30, "late"), (10, "early")):
        note.after(delay_ms, message)

    moments.append((system.next_timer_ms(), system.next_deadline_ms()))
    clock.advance(15)
    _run(system)
    moments.append((system.next_timer_ms(), system.next_deadline_ms()))
    clock.advance(85)
    _run(system)

    assert moments == [(20, None), (10, 10), (20, 30)]
    assert note.told == ["early", look, "late"]


def test_a_timer_cancelled_in_the_moment_it_falls_due_does_not_fire() -> None:
    """What is delivered before it may still call it off."""
    system, clock = _system()

    class Canceller(Note):
        def on_receive(self, message: object) -> None:
            super().on_receive(message)
            timer.cancel()

    note = Canceller()
    ref = system.spawn_root(note)
    _run(system)
    timer = note.after(10, "no")
    ref.tell("cancel")
    clock.advance(10)
    _run(system)

    assert note.told == ["cancel"]


def test_timers_of_a_stopped_tree_do_not_fire() -> None:
    """Nor keep the system waiting."""
    system, clock = _system()
    note = Note()
    ref = system.spawn_root(note)
    note.after(10, "late")

    system.stop_tree(ref)
    next_ms = system.next_timer_ms()
    clock.advance(20)
    _run(system)

    assert next_ms is None and not note.told


def test_after_close_nothing_runs_any_more() -> None:
    """Neither messages nor timers, set before or after."""
    system, clock = _system()
    note = Note()
    ref = system.spawn_root(note)
    _run(system)
    ref.tell("before")
    note.after(10, "timer")

    system.close()
    ref.tell("after")
    clock.advance(20)

    assert not system.run_one() and not note.told


def test_both_virtual_clocks_advance_together() -> None:
    """Fractions add up; the wall clock is cut to whole milliseconds."""
    clock = VirtualClock(1_000)

    clock.advance(0.6)
    clock.advance(0.6)

    assert clock.now_ms() == 1_001 and clock.monotonic_ms() == pytest.approx(1.2)


@pytest.mark.parametrize("delta_ms", [-500, 500])
def test_a_wall_step_lets_no_time_pass(delta_ms: int) -> None:
    """Timers measure, they do not read the wall clock."""
    clock = VirtualClock(1_000)

    clock.step_wall(delta_ms)

    assert clock.now_ms() == 1_000 + delta_ms and clock.monotonic_ms() == 0


def test_virtual_time_does_not_pass_backward() -> None:
    """A wall clock may be set back, time may not."""
    with pytest.raises(ValueError, match="step_wall"):
        VirtualClock().advance(-1)


def test_a_ref_says_whether_its_actor_lives_and_where() -> None:
    """The path names the roles from the root."""
    system, _ = _system()
    ref: Ref = system.spawn_root(Note())

    alive, path = ref.is_alive(), ref.actor_urn
    system.stop_tree(ref)

    assert alive and not ref.is_alive() and path == "Note"
