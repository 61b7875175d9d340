"""How many attempts of a kind run at once on a node."""

from actors.model.kind import with_kind
from scheduler.node.attempts import RunningAttempt
from scheduler.node.kind_limits import KindLimits
from tests.builders import a_stored_task, an_attempt


def running(kind: str | None) -> RunningAttempt:
    """Return an attempt of a task of a kind."""
    data = b"{}" if kind is None else with_kind(b"{}", kind)
    attempt = an_attempt(task=a_stored_task(data=data))
    return RunningAttempt(attempt, None, None)  # type: ignore[arg-type]


def test_more_than_the_limit_waits_and_goes_on_in_order() -> None:
    """One that ends makes room for one."""
    submitted: list[RunningAttempt] = []
    limits = KindLimits({"mail": 2}, submitted.extend)
    all_of_them = [running("mail") for _ in range(4)]

    for each in all_of_them:
        limits.begin([each])
    first = list(submitted)
    limits.end(first[0])
    second = list(submitted)
    for each in all_of_them[1:]:
        limits.end(each)
    limits.begin([running("mail")])

    assert first == all_of_them[:2] and second == all_of_them[:3]
    assert submitted[:4] == all_of_them and len(submitted) == 5


def test_other_kinds_and_none_are_not_held_up() -> None:
    """Only a kind with a limit has one."""
    submitted: list[RunningAttempt] = []
    limits = KindLimits({"mail": 1}, submitted.extend)

    for kind in ("mail", "mail", "charge", "charge", None, None):
        limits.begin([running(kind)])

    assert [each.attempt.task.kind for each in submitted] == [
        "mail",
        "charge",
        "charge",
        None,
        None,
    ]
