"""Supervision, contexts and futures: whatever fails, the whole tree goes and its owner hears."""

from collections.abc import Callable
from concurrent.futures import Future

import pytest

from hourhand.actors.kernel.actor import Actor
from hourhand.actors.kernel.context import Resume
from hourhand.actors.kernel.futures import gather
from hourhand.actors.kernel.ref import Ref
from hourhand.actors.kernel.simulated import SimulatedSystem, VirtualClock


class Node(Actor):
    """Has children on start, says when it stops, and does what it is told to."""

    def __init__(self, name: str, stopped: list[str], *children: "Node") -> None:
        self.name = name
        self.told: list[object] = []
        self._stopped = stopped
        self._below = children
        self.refs: list[Ref] = []

    def on_start(self) -> None:
        self.refs = [self.spawn(child) for child in self._below]

    def on_stop(self) -> None:
        self._stopped.append(self.name)
        if self.name.startswith("bad"):
            raise RuntimeError("cannot let go")

    def on_receive(self, message: object) -> None:
        if callable(message):
            message(self)
        else:
            self.told.append(message)

    def tell_self(self, message: object) -> None:
        """Let a test leave this actor a message."""
        self._context.tell_self(message)

    def pipe(self, future: "Future[object]", message_of: Callable[[object], object]) -> None:
        """Let a test pipe a future to this actor."""
        self._context.pipe(future, message_of)


class Tree:
    """root above a and b, a above c."""

    def __init__(self, *, a: str = "a") -> None:
        self.stopped: list[str] = []
        self.failures: list[BaseException] = []
        self.system = SimulatedSystem(VirtualClock(), self.failures.append)
        self.c = Node("c", self.stopped)
        self.a = Node(a, self.stopped, self.c)
        self.b = Node("b", self.stopped)
        self.root = Node("root", self.stopped, self.a, self.b)
        self.ref = self.system.spawn_root(self.root)
        self.run()

    def run(self) -> None:
        """Deliver everything."""
        while self.system.run_one():
            pass


def _boom(_actor: object) -> None:
    raise ValueError("boom")


def test_p16_a_failure_anywhere_tears_the_whole_tree_down() -> None:
    """Restarting one actor would leave the others with state that is gone."""
    tree = Tree()

    tree.a.refs[0].tell(_boom)
    tree.run()

    assert sorted(tree.stopped) == ["a", "b", "c", "root"]
    assert not tree.ref.is_alive()


class _Unshowable(Exception):
    """An error whose text raises."""

    def __str__(self) -> str:
        """Raise what ``except Exception`` does not catch."""
        raise SystemExit(3)


def test_p16_a_failure_that_cannot_be_shown_tears_the_tree_down_as_well() -> None:
    """Logging it is anybody's code: what that raises must not reach the dispatcher."""
    tree = Tree()

    def fail(_actor: object) -> None:
        raise _Unshowable

    tree.ref.tell(fail)
    tree.run()

    assert [type(error) for error in tree.failures] == [_Unshowable]


def test_the_owner_hears_of_a_failure_once() -> None:
    """What the others still had in their mailboxes is dropped."""
    tree = Tree()

    for ref in (*tree.root.refs, *tree.a.refs, tree.ref):
        ref.tell(_boom)
    tree.run()

    assert [str(error) for error in tree.failures] == ["boom"]


def test_children_stop_before_their_parents() -> None:
    """A parent may still rely on itself when they let go."""
    tree = Tree()

    tree.system.stop_tree(tree.ref)

    assert tree.stopped.index("c") < tree.stopped.index("a") < tree.stopped.index("root")


def test_an_actor_that_cannot_let_go_does_not_keep_its_tree(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is reported and dies with the node."""
    tree = Tree(a="bad")

    tree.system.stop_tree(tree.ref)

    assert sorted(tree.stopped) == ["b", "bad", "c", "root"] and not tree.failures
    assert "Node/Node failed to stop" in caplog.text


def test_an_actor_may_leave_itself_a_message_and_go_on_with_what_the_kernel_resumes() -> None:
    """Behind those that already wait."""
    tree, resumed = Tree(), list[str]()
    tree.b.tell_self("later")
    tree.root.refs[1].tell("after that")

    tree.root.refs[1].tell(Resume(lambda: resumed.append("resumed")))
    tree.run()

    assert tree.b.told == ["later", "after that"] and resumed == ["resumed"]


def test_messages_to_a_stopped_actor_are_dropped() -> None:
    """Late answers are the normal case."""
    tree = Tree()
    tree.ref.tell("early")
    child = tree.root.refs[0]
    child.tell("queued")

    tree.root.stop_child(child)
    child.tell("late")
    tree.run()

    assert tree.root.told == ["early"] and not tree.a.told


def test_stopping_a_child_leaves_its_siblings_alone() -> None:
    """Only what is below it goes."""
    tree = Tree()

    tree.root.stop_child(tree.root.refs[0])
    tree.root.refs[1].tell("hello")
    tree.run()

    assert sorted(tree.stopped) == ["a", "c"] and tree.b.told == ["hello"]


def test_a_future_answers_as_a_message() -> None:
    """True if it resolves before or after."""
    tree = Tree()
    futures: list[Future[object]] = [Future(), Future()]
    futures[0].set_result(1)

    for future in futures:
        tree.a.pipe(future, lambda value: ("resolved", value))
    tree.run()
    futures[1].set_result(2)
    tree.run()

    assert tree.a.told == [("resolved", 1), ("resolved", 2)]


def test_a_failing_future_tears_the_tree_down() -> None:
    """Nobody waits for ever for an answer that cannot come."""
    tree = Tree()
    future: Future[object] = Future()
    tree.a.pipe(future, lambda value: value)

    future.set_exception(OSError("disk"))
    tree.run()

    assert [str(error) for error in tree.failures] == ["disk"]


def test_a_cancelled_future_tears_the_tree_down() -> None:
    """A driver that is closed cancels what it has not sent."""
    tree = Tree()
    future: Future[object] = Future()
    tree.a.pipe(future, lambda value: value)

    future.cancel()
    tree.run()

    assert len(tree.failures) == 1 and not tree.ref.is_alive()


def test_an_answer_that_cannot_be_made_tears_the_tree_down() -> None:
    """The callbacks of a future swallow what is raised in them."""
    tree = Tree()
    future: Future[object] = Future()
    tree.a.pipe(future, lambda value: 1 / 0)

    future.set_result(None)
    tree.run()

    assert [type(error) for error in tree.failures] == [ZeroDivisionError]


def test_gathered_futures_answer_in_order() -> None:
    """However they resolve."""
    futures: list[Future[int]] = [Future(), Future()]
    gathered = gather(futures)

    futures[1].set_result(2)
    early = gathered.done()
    futures[0].set_result(1)

    assert not early and gathered.result(timeout=0) == (1, 2)
    assert gather(()).result(timeout=0) == ()


@pytest.mark.parametrize("cancelled", [False, True])
def test_gathered_futures_fail_when_all_have_ended(cancelled: bool) -> None:
    """A retry must not overlap what is still under way."""
    futures: list[Future[int]] = [Future(), Future()]
    gathered = gather(futures)

    if cancelled:
        futures[0].cancel()
    else:
        futures[0].set_exception(OSError("disk"))
    early = gathered.done()
    futures[1].set_result(2)

    assert not early and gathered.done() and gathered.exception(timeout=0) is not None


def test_an_actor_is_not_started_by_itself() -> None:
    """It belongs to a parent or a system."""
    with pytest.raises(TypeError, match="spawn"):
        Node.start()


def test_a_child_handles_its_first_message_before_its_parent_goes_on() -> None:
    """Through the mailbox it would take a large part of a short life."""

    class Noting(Actor):
        def __init__(self, told: list[object]) -> None:
            self.told = told

        def on_start(self) -> None:
            self.told.append("started")

        def on_receive(self, message: object) -> None:
            self.told.append(message)

    tree = Tree()
    told: list[object] = []

    child = tree.a.spawn(Noting(told), "first")
    child.tell("second")
    at_once = list(told)
    tree.run()

    assert at_once == ["started", "first"]
    assert told == ["started", "first", "second"]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_future_that_fails_with_no_exception_fails_the_tree(error: type[BaseException]) -> None:
    """It is told as an Exception: what only ends a process must not end the dispatcher."""
    tree, future = Tree(), Future[object]()
    tree.a.pipe(future, lambda answer: answer)

    future.set_exception(error("no"))
    tree.run()

    assert [type(failure.__cause__) for failure in tree.failures] == [error]
