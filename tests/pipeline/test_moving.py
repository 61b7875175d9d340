"""What becomes of offsets, owners and pauses when everything moves; without servers."""

import itertools

import msgspec
import pytest

from hourhand.actors.model.operations.ownership import (
    Claim,
    Straggler,
    Watermark,
    initial_watermark,
)
from hourhand.actors.model.operations.pauses import Pause, PauseScope
from hourhand.actors.model.task.definition import Definition, DefinitionKind, DefinitionName
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.bucket import HOUR_MS, hour_of
from hourhand.actors.model.values.errors import InvalidInput
from hourhand.scheduler.pipeline.restore import (
    highest_epoch,
    lowered,
    moved_pauses,
    new_watermark,
    sources_of,
)
from hourhand.scheduler.pipeline.transform_move import (
    MOVED_BY,
    moved_definition,
    moved_key,
    moved_offset,
    moved_task,
)
from hourhand.scheduler.services.recurring.state import State, tick_task
from hourhand.scheduler.services.timers.executor import timer_pop_task
from hourhand.scheduler.services.timers.timer import TimerRule, TimerState
from tests.builders import NOW_MS, a_stored_task


def test_offsets_keep_their_order_below_every_new_record() -> None:
    """Bulk-loaded rows, which have -1, and rows that were moved before among them."""
    offsets = [-MOVED_BY + 3, -1, 0, 1, 2**40]

    found = [moved_offset(each) for each in offsets]

    assert found == sorted(found)
    assert found[-1] < -1, "below the bulk loads of the new installation too"
    with pytest.raises(InvalidInput, match="cannot be moved"):
        moved_offset(MOVED_BY)


def test_a_tick_and_its_schedule_still_belong_together() -> None:
    """The same key is made from the moved definition by whoever makes it again."""
    tick = tick_task("nightly", NOW_MS, 77)
    state = State({"every": 5}, NOW_MS, f"{NOW_MS}:{tick.uniqueness_key}", changed_at=41)
    name = DefinitionName(DefinitionKind.RECURRING, "nightly")
    row = StoredTask(tick.key, msgspec.json.encode(tick.data), 78)

    definition = moved_definition(Definition(name, 77, msgspec.json.encode(state), NOW_MS))
    moved = moved_task(row)

    remade = tick_task("nightly", NOW_MS, definition.offset)
    assert (moved.key, msgspec.json.decode(moved.data)) == (remade.key, remade.data)
    kept = msgspec.json.decode(definition.rule, type=State)
    assert kept.made_by == f"{NOW_MS}:{remade.uniqueness_key}"
    assert kept.changed_at == moved_offset(41) < moved.offset
    assert kept.rule == state.rule


def test_a_pop_and_its_timer_still_belong_together() -> None:
    """A timer that ended has no rule, and an ended definition no text."""
    pop = timer_pop_task("0123456789abcdef", NOW_MS, 3, 12)
    state = TimerState(NOW_MS, "change:x", 12, TimerRule(1000, 9000, "http://x", ""))
    name = DefinitionName(DefinitionKind.TIMER, "0123456789abcdef")

    definition = moved_definition(Definition(name, 12, msgspec.json.encode(state)))

    assert moved_key(pop.key) == timer_pop_task(name.id, NOW_MS, 3, definition.offset).key
    kept = msgspec.json.decode(definition.rule, type=TimerState)
    assert kept == msgspec.structs.replace(state, changed_at=moved_offset(12))
    ended = Definition(name, 13, b"", None, NOW_MS)
    assert moved_definition(ended) == msgspec.structs.replace(ended, offset=moved_offset(13))


@pytest.mark.parametrize("ordering_id", ["customer-7", "hourhand:send:=x", "hourhand:relay:pop:1"])
def test_names_of_others_are_left_alone(ordering_id: str) -> None:
    """Whatever they look like."""
    task = a_stored_task(
        ordering_id=ordering_id, uniqueness_key="tick:5", data=b'{"generation": 5}', offset=9
    )

    moved = moved_task(task)

    assert (moved.key, moved.data, moved.offset) == (task.key, task.data, 9 - MOVED_BY)


def test_ordering_ids_come_from_where_the_arithmetic_says() -> None:
    """Of every pair of numbers up to 12."""
    ids = [f"id-{number}" for number in range(400)]
    for old, new in itertools.product(range(1, 13), repeat=2):
        for ordering_id in ids:
            came_from = partition_of(ordering_id, old)
            assert came_from in sources_of(partition_of(ordering_id, new), old, new)
    assert sources_of(20, 16, 48) == [4]


def _claim(epoch: int, hours: float, *stragglers: Straggler) -> Claim:
    time_ms = NOW_MS + round(hours * HOUR_MS)
    mark = msgspec.structs.replace(initial_watermark(time_ms), stragglers=stragglers, next_offset=9)
    return Claim(epoch, mark)


def test_a_new_partition_begins_before_all_that_may_be_open() -> None:
    """At the lowest of its sources, with their stragglers, and reads its log from the start."""
    blocked = next(f"id-{n}" for n in range(999) if partition_of(f"id-{n}", 2) == 1)
    claims = {
        0: _claim(3, 2),
        1: _claim(9, 1, Straggler(blocked, NOW_MS - HOUR_MS)),
        2: _claim(4, 5),
        3: None,
    }

    marks = [new_watermark(each, claims, 2, 100, NOW_MS) for each in range(2)]

    assert highest_epoch(claims) == 9
    assert [mark.watermark_ms - NOW_MS for mark in marks] == [2 * HOUR_MS, HOUR_MS]
    assert [len(mark.stragglers) for mark in marks] == [0, 1]
    assert {mark.next_offset for mark in marks} == {None}
    assert marks[0].loaded_until_ms == NOW_MS + 5 * HOUR_MS
    assert marks[0].tasks_swept_until_ms == hour_of(NOW_MS + 2 * HOUR_MS)


def test_a_list_of_stragglers_that_is_too_long_holds_the_watermark() -> None:
    """At the first that has no room."""
    held = tuple(Straggler(f"id-{n}", NOW_MS - n * HOUR_MS) for n in range(1, 5))
    claims = {0: _claim(1, 1, *held)}

    mark = new_watermark(0, claims, 1, 3, NOW_MS)

    assert mark.watermark_ms == NOW_MS - HOUR_MS
    assert [each.ordering_id for each in mark.stragglers] == ["id-4", "id-3", "id-2"]


def test_without_any_owner_a_partition_begins_now() -> None:
    """As one does that no node ever took."""
    assert new_watermark(1, {0: None, 1: None}, 3, 9, NOW_MS) == initial_watermark(NOW_MS)


def test_a_record_of_before_lowers_the_watermark() -> None:
    """The marks of what may be deleted are lowered with it."""
    mark = Watermark(
        watermark_ms=NOW_MS,
        loaded_until_ms=NOW_MS,
        tasks_swept_until_ms=hour_of(NOW_MS),
        statuses_swept_until_ms=hour_of(NOW_MS - HOUR_MS),
        stragglers=(Straggler("a", NOW_MS - 9 * HOUR_MS), Straggler("b", NOW_MS - 1)),
    )

    low = lowered(mark, NOW_MS - 3 * HOUR_MS)

    assert low.watermark_ms == NOW_MS - 3 * HOUR_MS
    assert low.tasks_swept_until_ms == low.statuses_swept_until_ms == hour_of(low.watermark_ms)
    assert [each.ordering_id for each in low.stragglers] == ["a"]
    assert lowered(mark, None) == lowered(mark, NOW_MS) == mark


def test_what_is_paused_stays_paused() -> None:
    """Where partitions are merged, rather more than less."""
    whole = Pause(PauseScope.PARTITION, 5)
    one = Pause(PauseScope.ORDERING, partition_of("a", 6), "a", reason="why")
    everything = Pause(PauseScope.ALL)

    moved = moved_pauses([whole, one, everything], 6, 4)

    assert [each.partition for each in moved] == [1, 3, partition_of("a", 4), -1]
    assert moved[2].reason == "why"
    assert moved_pauses([whole], 6, 6) == [whole]
