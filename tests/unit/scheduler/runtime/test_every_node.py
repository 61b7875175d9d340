"""When a node may do what older ones cannot, as the reports say that it reads in the store."""

from concurrent.futures import Future

from hourhand.actors.model.values.errors import StoreUnavailable
from hourhand.scheduler.runtime.every_node import (
    LOOK_MS,
    SETTLED_MS,
    TRUSTED_MS,
    EveryNode,
)
from tests.unit.scheduler.adapters.memory.world import ManualClock


class World:
    """A gate, a clock that stands still, and looks that the test answers."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.looks: list[Future[bool]] = []
        self.gate = EveryNode(self._look, lambda: self.clock.ms, "it is done")

    def look(self, answer: bool | Exception, after_ms: float = LOOK_MS) -> bool:
        """Let time pass, have the gate look, answer it, and return whether the gate is open."""
        self.clock.ms += after_ms
        self.gate()
        if isinstance(answer, bool):
            self.looks[-1].set_result(answer)
        else:
            self.looks[-1].set_exception(answer)
        return self.gate()

    def _look(self) -> "Future[bool]":
        self.looks.append(Future())
        return self.looks[-1]


def settled() -> World:
    """Return a world whose gate is open."""
    world = World()
    assert world.look(answer=True, after_ms=SETTLED_MS)
    return world


def test_it_opens_some_time_after_the_start_and_not_before() -> None:
    """An older node that was started at the same moment has reported by then."""
    world = World()
    assert not world.look(answer=True)
    world.clock.ms += SETTLED_MS - LOOK_MS - 1
    assert not world.gate()
    world.looks[-1].set_result(True)
    assert not world.gate()
    world.clock.ms += 1
    assert world.gate()


def test_nothing_is_written_before_the_first_answer() -> None:
    """However long the node works already."""
    world = World()
    world.clock.ms += 10 * SETTLED_MS
    assert not world.gate()
    assert not world.gate(), "the look is under way"
    assert len(world.looks) == 1


def test_it_closes_when_a_node_does_not_read_segments_and_opens_when_it_is_gone() -> None:
    """Its report stays for ten minutes."""
    world = settled()
    assert not world.look(answer=False)
    assert world.look(answer=True)


def test_a_node_that_cannot_read_the_reports_writes_rows() -> None:
    """At once, until they can be read again."""
    world = settled()
    assert not world.look(StoreUnavailable("down"))
    assert world.look(answer=True)


def test_an_answer_is_not_trusted_for_long() -> None:
    """A node that wrote nothing for a while, or waits for an answer, does not know any more."""
    world = settled()
    world.clock.ms += TRUSTED_MS - 1
    assert world.gate()
    world.clock.ms += 1
    assert not world.gate(), "the look that began meanwhile has no answer"
    world.looks[-1].set_result(True)
    world.gate()
    assert not world.look(answer=False)


def test_it_looks_now_and_then_however_often_it_is_asked() -> None:
    """A write costs the time of a comparison."""
    world = settled()
    for _ in range(100):
        assert world.gate()
    assert len(world.looks) == 1
    world.clock.ms += LOOK_MS
    assert world.gate()
    assert len(world.looks) == 2
