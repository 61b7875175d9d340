"""The error tree: every class has a code of its own and one branch that says whose fault."""

import inspect
import pickle

from hourhand.actors.model.values import errors
from hourhand.actors.model.values.errors import (
    CallerError,
    HourhandError,
    InternalError,
    LogUnavailable,
    OperatorError,
    OwnershipLost,
    PoisonRecord,
    StoreUnavailable,
    TaskTooLarge,
    TopicMissing,
    may_pass,
)


def _classes() -> list[type[HourhandError]]:
    return [
        member
        for _, member in inspect.getmembers(errors, inspect.isclass)
        if issubclass(member, HourhandError)
    ]


def test_every_code_is_used_once() -> None:
    """Logs and documents name an error by its code alone."""
    codes = [error.code for error in _classes()]

    assert len(codes) == len(set(codes))


def test_every_error_says_whose_fault_it_is() -> None:
    """Each class is in exactly one of the three branches."""
    branches = (CallerError, OperatorError, InternalError)

    for error in _classes():
        if error not in {HourhandError, *branches}:
            assert sum(issubclass(error, branch) for branch in branches) == 1, error


def test_a_callers_mistake_in_a_value_is_a_value_error_too() -> None:
    """Code that knows nothing of Hourhand catches what it expects."""
    others = {
        errors.AlreadyStarted,
        errors.NotConnected,
        errors.UnknownConnection,
        errors.SparkNotStarted,
        errors.ProcessDied,
        errors.NoResult,
        errors.SnoozesUsedUp,
    }
    for error in set(CallerError.__subclasses__()) - others:
        assert issubclass(error, ValueError), error


def test_a_call_at_the_wrong_time_is_a_runtime_error_too() -> None:
    """What was given is right; the object is past the state in which it may be asked."""
    assert issubclass(errors.AlreadyStarted, RuntimeError)
    assert issubclass(errors.NotConnected, RuntimeError)


def test_the_tree_drawn_in_the_docstring_is_the_tree() -> None:
    """The drawing names every class once."""
    drawing = inspect.getdoc(errors)
    assert drawing is not None

    for error in _classes():
        assert drawing.split().count(error.__name__) == 1, error


def test_ownership_lost_says_which_partition_and_what_happens_next() -> None:
    """An operator reads it in a log."""
    error = OwnershipLost(partition=3, epoch=7)

    assert (error.partition, error.epoch) == (3, 7)
    assert str(error) == (
        "partition 3 has an owner newer than epoch 7;"
        " this node gives it up until it is assigned again"
    )


def test_every_error_survives_a_process_border() -> None:
    """Spark's workers and test runners pickle what they raise."""
    for error in _classes():
        raised = OwnershipLost(3, 7) if error is OwnershipLost else error("why")

        back = pickle.loads(pickle.dumps(raised))  # noqa: S301 - our own bytes

        assert (type(back), str(back)) == (error, str(raised))


def test_what_may_pass_is_the_installations_fault() -> None:
    """A refusal of what was asked, or a bug, is the same at every try."""
    passing = [LogUnavailable("x"), StoreUnavailable("x"), TopicMissing("x")]
    final = [TaskTooLarge("x"), PoisonRecord("x"), TypeError("x"), UnicodeError("x")]

    assert all(may_pass(error) for error in passing)
    assert not any(may_pass(error) for error in final)
