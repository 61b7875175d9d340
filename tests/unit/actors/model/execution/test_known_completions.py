"""KnownCompletions: what memory can tell without the store."""

from msgspec.structs import replace

from hourhand.actors.model.execution.known_completions import KnownCompletions
from hourhand.actors.model.task.status import CompletionResult
from tests.builders import NOW_MS, a_completion, a_stored_task
from tests.unit.actors.completion_tracker_bench import key_of

TASK = a_stored_task(due_in_ms=0, offset=3)


def known(completions_max: int = 100, bytes_max: int = 1_000_000) -> KnownCompletions:
    """Return what a tree knows that began now."""
    return KnownCompletions(NOW_MS, completions_max, bytes_max)


def test_a_loaded_key_without_a_completion_is_open() -> None:
    """Nobody else writes completions while the partition is owned."""
    assert known().is_closed(TASK) is False


def test_only_the_store_can_tell_of_a_key_before_the_bound() -> None:
    """Its completion may be an earlier owner's."""
    early = replace(TASK, key=TASK.key._replace(scheduled_ms=NOW_MS - 1))

    assert known().is_closed(early) is None


def test_a_known_completion_decides_by_its_offset() -> None:
    """A later record reopens a cancelled key (P6)."""
    completions = known()
    completions.remember(
        a_completion(key=TASK.key, result=CompletionResult.CANCELLED, offset=TASK.offset)
    )

    assert completions.is_closed(TASK) is True
    assert completions.is_closed(replace(TASK, offset=TASK.offset + 1)) is False


def test_past_the_limit_the_older_half_is_forgotten_but_what_is_not_durable() -> None:
    """The bound rises with it, so that nobody takes a forgotten key for open."""
    completions = known(completions_max=3)
    keys = [key_of(number) for number in range(4)]
    full = [completions.remember(a_completion(key=key)) for key in keys]

    completions.forget_older({keys[0]})

    assert full == [False, False, False, True]
    assert [completions.find(key) is not None for key in keys] == [True, False, False, True]
    assert not completions.covers(keys[2])
    assert completions.is_closed(replace(TASK, key=keys[1])) is None


def test_the_bound_stands_among_the_tasks_of_one_millisecond() -> None:
    """Any number of tasks may be due at one moment; the store is asked for none that comes later
    in their order.
    """
    completions = known(completions_max=9)
    keys = [key_of(0)._replace(ordering_id=f"id-{number:02}") for number in range(12)]
    for key in keys[:10]:
        completions.remember(a_completion(key=key))

    completions.forget_older(())

    assert completions.is_closed(replace(TASK, key=keys[11])) is False
    assert completions.is_closed(replace(TASK, key=keys[0])) is None


def test_what_is_forgotten_is_about_half() -> None:
    """A little less would be forgotten again and again, each time by a look at all of them."""
    completions = known(completions_max=9)
    keys = [key_of(number) for number in range(10)]
    for key in keys:
        completions.remember(a_completion(key=key))

    completions.forget_older(())

    assert [completions.find(key) is not None for key in keys] == [False] * 6 + [True] * 4


def test_past_the_limit_of_bytes_halves_are_forgotten_until_the_rest_fits() -> None:
    """The ids may be long, and the largest the latest ones."""
    large = [key_of(number)._replace(ordering_id="x" * 10_000) for number in range(50, 58)]
    completions = known(bytes_max=30_000)
    for number in range(8):
        assert not completions.remember(a_completion(key=key_of(number)))
    full = [completions.remember(a_completion(key=key)) for key in large[:3]]

    completions.forget_older(())

    assert full == [False, False, True]
    assert [completions.find(key) is not None for key in large[:3]] == [False, True, True]
    assert completions.find(key_of(7)) is None
    assert not completions.remember(a_completion(key=key_of(60))), "there is room again"


def test_what_is_not_durable_stays_even_where_it_is_too_much() -> None:
    """As soon as it is durable the next completion makes room."""
    key = key_of(1)._replace(ordering_id="x" * 10_000)
    completions = known(bytes_max=9_000)
    assert completions.remember(a_completion(key=key))

    completions.forget_older({key})
    assert completions.find(key) is not None

    assert completions.remember(a_completion(key=key_of(2)))
    completions.forget_older({key_of(2)})
    assert completions.find(key) is None


def test_a_completion_that_took_anothers_place_forgets_nothing() -> None:
    """An operator may retry a task, and it ends again, any number of times."""
    completions = known(bytes_max=2_000)
    for offset in range(90):
        if completions.remember(a_completion(key=TASK.key, offset=offset)):
            completions.forget_older(())

    found = completions.find(TASK.key)
    assert found is not None and found.offset == 89
