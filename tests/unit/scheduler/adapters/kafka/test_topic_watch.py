"""A topic that stands in another one's place is noticed, and nothing else is taken for one."""

from concurrent.futures import Future

from hourhand.actors.model.values.errors import TopicMissing
from hourhand.scheduler.adapters.kafka.topic_watch import LOOK_MS, TopicWatch
from tests.unit.scheduler.adapters.kafka.test_commits import HandClock


class Case:
    """A watch whose questions the test answers."""

    def __init__(self, topic_id: str = "a") -> None:
        self.clock = HandClock()
        self.asked: list[Future[str]] = []
        self.watch = TopicWatch(self._ask, self.clock)
        self.watch.begin(topic_id)

    def _ask(self) -> "Future[str]":
        self.asked.append(Future())
        return self.asked[-1]

    def look(self) -> str:
        """Let the time of the next look come."""
        self.clock.time_ms += LOOK_MS
        return self.watch.other()


def test_it_asks_now_and_then_and_one_question_at_a_time() -> None:
    """A broker that is slow is not asked again meanwhile."""
    case = Case()

    assert not case.watch.other() and not case.asked
    assert not case.look() and not case.look()
    assert len(case.asked) == 1
    case.asked[0].set_result("a")
    assert not case.watch.other() and not case.look()
    assert len(case.asked) == 2


def test_another_id_is_another_topic_until_that_one_is_read() -> None:
    """Told as long as nobody has begun with it."""
    case = Case()
    case.look()
    case.asked[0].set_result("b")

    assert case.watch.other() == case.watch.other() == "b"
    case.watch.begin("b")
    assert not case.look()
    assert case.watch.topic_id == "b"


def test_what_somebody_else_was_told_counts_as_well() -> None:
    """Whoever begins with a partition asks for the topic's id, too."""
    case = Case()

    assert case.watch.note("a") and not case.watch.other()
    assert not case.watch.note("b")
    assert case.watch.other() == "b"


def test_a_topic_that_is_away_or_has_no_id_is_not_another_one() -> None:
    """Nobody answers while it is being deleted; an old broker names no topics."""
    case = Case()
    case.look()
    case.asked[0].set_exception(TopicMissing("no such topic"))
    assert not case.watch.other() and not case.look()
    case.asked[1].set_result("")
    assert not case.watch.other()

    nameless = Case("")
    assert not nameless.look() and not nameless.asked
    assert nameless.watch.note("b") and not nameless.watch.other()
