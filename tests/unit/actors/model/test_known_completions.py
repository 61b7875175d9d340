"""KnownCompletions: what memory can tell without the store."""

from msgspec.structs import replace

from actors.model.known_completions import KnownCompletions
from actors.model.status import CompletionResult
from tests.builders import NOW_MS, a_completion, a_stored_task
from tests.unit.actors.completion_tracker_bench import key_of

TASK = a_stored_task(due_in_ms=0, offset=3)


def known(completions_max: int = 100) -> KnownCompletions:
    """Return what a tree knows that began now."""
    return KnownCompletions(NOW_MS, completions_max)


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

    completions.forget_older_half({keys[0]})

    assert full == [False, False, False, True]
    assert [completions.find(key) is not None for key in keys] == [True, False, False, True]
    assert not completions.covers(keys[2])
    assert completions.is_closed(replace(TASK, key=keys[1])) is None
