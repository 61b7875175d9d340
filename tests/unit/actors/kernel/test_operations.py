"""Operations: one at a time, resumed with what they wait for, in the order they were begun."""

from concurrent.futures import Future

from hourhand.actors.kernel.actor import Actor
from hourhand.actors.kernel.operations import Ask, Operation, Operations, Resolved
from hourhand.actors.kernel.simulated import SimulatedSystem, VirtualClock
from tests.unit.probes import Probe


class Worker(Actor):
    """Runs the operations it is told."""

    def on_start(self) -> None:
        self.operations = Operations(self._context)

    def on_receive(self, message: object) -> None:
        match message:
            case Resolved(value=value):
                self.operations.resume(value)
            case str():
                self.operations.resume(message)
            case _:
                self.operations.begin(message)  # type: ignore[arg-type]


class Bench:
    """A worker and what its operations noted."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self.system = SimulatedSystem(VirtualClock(), self.failures.append)
        self.ref = self.system.spawn_root(Worker())
        self.noted: list[object] = []

    def tell(self, message: object) -> None:
        """Let the worker handle a message."""
        self.ref.tell(message)
        self.run()

    def run(self) -> None:
        """Deliver everything."""
        while self.system.run_one():
            pass

    def wait_for(self, name: str, *waits: "Future[str] | Ask") -> Operation:
        """Return an operation that notes its begin, its answers and its end."""
        self.noted.append(f"{name} begins")
        for wait in waits:
            answer = yield wait
            self.noted.append(answer)
        self.noted.append(f"{name} ends")


def test_an_operation_is_resumed_with_each_answer() -> None:
    """Of a future, then of an actor."""
    bench, future, sibling = Bench(), Future[str](), Probe()

    bench.tell(bench.wait_for("a", future, Ask(sibling, "question")))
    future.set_result("one")
    bench.run()
    asked = list(sibling.messages)
    bench.tell("two")

    assert asked == ["question"]
    assert bench.noted == ["a begins", "one", "two", "a ends"]


def test_the_next_operation_begins_when_the_one_before_has_ended() -> None:
    """None of them can miss what another is about to do."""
    bench, future = Bench(), Future[str]()

    bench.tell(bench.wait_for("a", future))
    bench.tell(bench.wait_for("b"))
    early = list(bench.noted)
    future.set_result("one")
    bench.run()

    assert early == ["a begins"]
    assert bench.noted == ["a begins", "one", "a ends", "b begins", "b ends"]


def test_any_number_of_operations_that_wait_for_nothing_may_queue() -> None:
    """They are run in a loop, not one inside the other."""
    bench, future = Bench(), Future[str]()
    bench.tell(bench.wait_for("first", future))
    for number in range(3_000):
        bench.tell(bench.wait_for(str(number)))

    future.set_result("go")
    bench.run()

    assert not bench.failures and bench.noted[-1] == "2999 ends"


def test_a_failing_future_fails_the_tree() -> None:
    """The operation is not resumed."""
    bench, future = Bench(), Future[str]()
    bench.tell(bench.wait_for("a", future))

    future.set_exception(OSError("disk"))
    bench.run()

    assert [str(error) for error in bench.failures] == ["disk"] and bench.noted == ["a begins"]


def test_an_answer_that_nobody_asked_for_is_a_bug() -> None:
    """It would be taken for the answer to the next question."""
    bench = Bench()

    bench.tell("unasked")

    assert [type(error) for error in bench.failures] == [AssertionError]
