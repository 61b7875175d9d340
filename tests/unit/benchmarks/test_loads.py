"""What a load consists of."""

from collections import defaultdict

import pytest

from benchmarks.loads import ASYNC_KIND, COMPUTING_KIND, Load


def test_a_mixed_load_fails_a_tenth_once_and_has_another_tenth_of_the_async_kind() -> None:
    """None is both."""
    tasks = list(Load(1_000, 100, due_s=1.0, mixed=True).tasks())

    fails = {task.uniqueness_key for task in tasks if task.data.get("fails")}
    kinds = {task.uniqueness_key for task in tasks if task.kind == ASYNC_KIND}
    assert len(fails) == len(kinds) == 100
    assert not fails & kinds


def test_tasks_of_an_ordering_id_are_not_alike_in_a_mixed_load() -> None:
    """Or a tenth of the ids would only wait for one retry after the other."""
    fails: defaultdict[str, set[bool]] = defaultdict(set)
    for task in Load(1_000, 100, due_s=1.0, mixed=True).tasks():
        fails[task.ordering_id].add(bool(task.data.get("fails")))

    assert set(map(frozenset, fails.values())) == {frozenset({True, False})}


def test_a_plain_load_is_plain() -> None:
    """No kind, and nothing that fails."""
    tasks = list(Load(20, 10, due_s=1.0).tasks())

    assert {task.kind for task in tasks} == {None}
    assert not any("fails" in task.data for task in tasks)


def test_all_tasks_are_of_the_kind_of_their_load() -> None:
    """Those that compute in processes beside plain ones."""
    tasks = list(Load(20, 10, due_s=1.0, kind=COMPUTING_KIND).tasks())

    assert {task.kind for task in tasks} == {COMPUTING_KIND}


def test_tenants_take_turns_and_a_task_has_the_priority_of_its_load() -> None:
    """The data says whose it is; an ordering id is one tenant's."""
    load = Load(40, 20, due_s=1.0, tenants=10, priority=9)
    tasks = list(load.tasks())

    assert {task.priority for task in tasks} == {9}
    owners = {(task.ordering_id, task.data["tenant"]) for task in tasks}
    assert len(owners) == 20
    assert len({tenant for _, tenant in owners}) == 10
    assert [task.data for task in tasks] == [load.data(number) for number in load.numbers()]


def test_a_load_without_a_pace_comes_in_the_largest_chunks() -> None:
    """All numbers, each once, and the last chunk as small as it is."""
    chunks = list(Load(12, 3, first=100).chunks(5))

    assert chunks == [range(100, 105), range(105, 110), range(110, 112)]


def test_a_load_comes_at_its_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk each twentieth of a second, and none sooner because the one before was late."""
    slept: list[float] = []
    now_s = 50.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        slept.append(round(seconds, 3))
        now_s += seconds

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.monotonic", lambda: now_s)

    sizes = []
    for chunk in Load(300, 10, pace=2_000.0).chunks(5_000):
        sizes.append(len(chunk))
        now_s += 0.02 if len(sizes) == 1 else 0.0

    assert sizes == [100, 100, 100]
    assert slept == [0.0, 0.03, 0.05]
