"""Where the partitions of a moved installation begin, from where the old ones were.

Decides watermarks, stragglers and epochs of the new partitions so that nothing open is passed
over (P8) and no fence goes back.  Pure functions.
"""

from collections.abc import Iterable, Mapping
from math import gcd

from msgspec.structs import replace

from actors.model.ownership import Claim, Straggler, Watermark, initial_watermark
from actors.model.partition import partition_of
from actors.model.pauses import Pause, PauseScope

Claims = Mapping[int, Claim | None]


def highest_epoch(claims: Claims) -> int:
    """Return the highest owner epoch; 0 where no partition ever had an owner."""
    return max((claim.epoch for claim in claims.values() if claim is not None), default=0)


def sources_of(partition: int, old_count: int, new_count: int) -> list[int]:
    """Return the old partitions from which an ordering id may move to a new one.

    Both are remainders of one hash, so they agree modulo whatever divides both counts.
    """
    common = gcd(old_count, new_count)
    return [each for each in range(old_count) if each % common == partition % common]


def new_watermark(
    partition: int, claims: Claims, new_count: int, stragglers_max: int, now_ms: int
) -> Watermark:
    """Return where a new partition begins: at the least of what is done in the old ones.

    The next offset is that of no record: the new log is read from its beginning.
    """
    found = [claims[each] for each in sources_of(partition, len(claims), new_count)]
    marks = [claim.watermark for claim in found if claim is not None]
    if not marks:
        return initial_watermark(now_ms)
    merged = Watermark(
        watermark_ms=min(each.watermark_ms for each in marks),
        loaded_until_ms=max(each.loaded_until_ms for each in marks),
        tasks_swept_until_ms=min(each.tasks_swept_until_ms for each in marks),
        statuses_swept_until_ms=min(each.statuses_swept_until_ms for each in marks),
        statuses_due_until_ms=min(each.statuses_due_until_ms for each in marks),
        # Of several retentions that run, the last one counts for all.
        statuses_due_at_ms=max(each.statuses_due_at_ms for each in marks),
    )
    held = [
        straggler
        for mark in marks
        for straggler in mark.stragglers
        if partition_of(straggler.ordering_id, new_count) == partition
    ]
    return merged.advanced_to(merged.watermark_ms, _earliest(held), stragglers_max)


def lowered(watermark: Watermark, earliest_ms: int | None) -> Watermark:
    """Return the mark of a partition in which a task at ``earliest_ms`` may be open."""
    if earliest_ms is None or earliest_ms >= watermark.watermark_ms:
        return watermark
    stragglers = tuple(each for each in watermark.stragglers if each.first_ms < earliest_ms)
    return replace(watermark.lowered_to(earliest_ms), stragglers=stragglers)


def _earliest(held: Iterable[Straggler]) -> list[Straggler]:
    return sorted(held, key=lambda each: (each.first_ms, each.ordering_id))


def moved_pauses(pauses: Iterable[Pause], old_count: int, new_count: int) -> list[Pause]:
    """Return what is to be paused: what was, and where partitions were merged, more."""
    moved: list[Pause] = []
    for pause in pauses:
        if pause.scope is PauseScope.ALL or old_count == new_count:
            moved.append(pause)
        elif pause.scope is PauseScope.ORDERING:
            owner = partition_of(pause.ordering_id, new_count)
            moved.append(replace(pause, partition=owner))
        else:
            moved += [
                replace(pause, partition=each)
                for each in range(new_count)
                if pause.partition in sources_of(each, old_count, new_count)
            ]
    return moved
