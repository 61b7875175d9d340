"""Occurrences that are made before they are due: which ones, and which of them are left out.

An occurrence that starts on time finds all earlier ones ended, where its ordering id runs one task
at a time.  Any other one is judged here, by the state of its schedule and by when the earlier ones
ended.  Decides that from what is durable alone, so every node decides the same.
"""

import math
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from msgspec.structs import replace

from hourhand.actors.model.operations.ownership import CLOCKS_APART_MS, Claim
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.task.task import BEFORE_EVERY_RECORD, StoredTask
from hourhand.actors.model.values.instant import format_instant
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.node.made_ahead import LATE_MS, occurrence_ms
from hourhand.scheduler.runtime.steps import Steps, begun
from hourhand.scheduler.services.recurring.rule import RecurringRule
from hourhand.scheduler.services.recurring.state import (
    Recurring,
    State,
    Withdrawn,
    name_of,
    recent_keys,
    recurring_of,
)
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.tasks.appending import TaskAppender

AHEAD_MS = 30_000
"""The next occurrence is made however far off it is, later ones at most this time before."""
ROUND_MS = 24_000
"""Time of the occurrences that one tick makes: the next tick comes while some are still ahead."""
BEHIND_MS = 5_000
"""A tick that is later than this makes up for what was due, one occurrence after the other."""
WAITING_MAX = 20
"""Occurrences that wait behind one that runs long, at most; the times after them make none."""
RECENT_MAX = 20
_CLOSED_MAX = 2
"""Recent tasks that are kept although they have ended, at most: no overlap policy allows more
beside an occurrence that starts late."""
_STORED_WITHIN_MS = 3_600_000
"""An older occurrence without a row was swept, so it had ended."""
OVERLAPS = "an earlier occurrence had not ended when this one was due"
MISSED = "it was due longer ago than catch_up allows when a node took it over"
ENDED = "its schedule was changed before it was due"
_LEFT_OUT = frozenset({OVERLAPS, MISSED, ENDED})
_LAST_RECORD = (1 << 63) - 1
"""Higher than every offset."""


def occurrence_key(name: str, rule: RecurringRule, due_ms: int, mark: str = "") -> TaskKey:
    """Return the key of the occurrence at a time; ``mark`` tells a triggered one."""
    text = format_instant(due_ms)
    allow = rule.overlap == "allow"
    return TaskKey(
        rule.jittered_ms(name, due_ms),
        f"{rule.ordering_id}@{text}{mark}" if allow else rule.ordering_id,
        f"{name}@{text}{mark}",
    )


def recent_before(state: State, due_ms: int) -> list[TaskKey]:
    """Return the keys of the last occurrences of earlier times, triggered ones among them."""
    keys = recent_keys(state)
    return [
        key for key in keys if (occurrence_ms(key.uniqueness_key.removesuffix("!")) or 0) < due_ms
    ]


def overlaps(rule: RecurringRule, open_count: int) -> bool:
    """True if an occurrence is left out while so many earlier ones are open."""
    allowed = {"skip": 0, "buffer_one": 1}.get(rule.overlap)
    return allowed is not None and open_count > allowed


def sure_to_be_left_out(known: Recurring, ends: "Ends", now_ms: int) -> set[int]:
    """Return the times made ahead whose tasks overlap with earlier ones, whenever they start: too
    many were open when they were late already.
    """
    rule, state = known.rule, known.state
    left_out, taken = set[int](), list[TaskKey]()
    for due_ms in state.ahead:
        before = (*recent_before(state, due_ms), *taken)
        beside = sum(ends.was_open_at(key, due_ms + LATE_MS) for key in before)
        # By then it is late for the node that starts it, too, whose clock may be behind this one.
        if now_ms - due_ms >= 2 * CLOCKS_APART_MS and overlaps(rule, beside):
            left_out.add(due_ms)
        else:
            taken.append(occurrence_key(known.name, rule, due_ms))
    return left_out


def count_left(rule: RecurringRule, state: State, left_out: Collection[int] = ()) -> float:
    """Return how many more occurrences may be made, if of those that were made ahead only
    ``left_out`` are left out.
    """
    made = state.taken + sum(each not in left_out for each in state.ahead)
    return math.inf if rule.count_max is None else rule.count_max - made


def times_ahead(
    known: Recurring, from_ms: int, now_ms: int, places: float, *, only_next: bool
) -> list[int]:
    """Return the times behind ``from_ms`` whose occurrences are made now, at most ``places``: the
    next one, and unless ``only_next`` those of the next seconds.
    """
    rule, ahead = known.rule, known.state.ahead
    later = sum(each > from_ms for each in ahead)
    if only_next:
        places = min(places, 1 - later) if len(ahead) - later < WAITING_MAX else 0
    times: list[int] = []
    for due_ms in rule.times_after(max(from_ms, *ahead, 0), known.state.anchor_ms):
        is_next = later + len(times) == 0
        if len(times) >= places or not (is_next or due_ms <= now_ms + AHEAD_MS):
            break
        times.append(due_ms)
    return times


def count_ends(
    known: Recurring, due_ms: int, ends: "Ends", open_keys: list[TaskKey], oldest_ms: int
) -> State:
    """Return the state with the occurrences counted that were made ahead and were taken or left
    out: those that have ended, and those that nothing can overlap with any more.
    """
    state, kept = known.state, []
    for each in state.ahead:
        key = occurrence_key(known.name, known.rule, each)
        is_open = key in open_keys
        if each > due_ms or (
            is_open and (each < oldest_ms or _may_overlap(known, each, ends, open_keys))
        ):
            kept.append(each)
            continue
        closed = ends.closed.get(key)
        reason = None if closed is None or is_open else was_left_out(closed)
        if reason is None:
            state = replace(state, taken=state.taken + 1, recent=(*state.recent, str(key)))
        elif reason == MISSED:
            state = replace(state, missed=state.missed + 1)
        else:
            state = replace(state, skipped=state.skipped + 1)
    still_open = {str(key) for key in open_keys}
    ended_ms = {str(key): closed.finished_ms for key, closed in ends.closed.items()}
    # A triggered one may have ended behind others that a tick found out about later.
    closed_keys = sorted(
        (text for text in state.recent if text not in still_open),
        key=lambda text: ended_ms.get(text, 0),
    )
    dropped = set(closed_keys[:-_CLOSED_MAX])
    recent = tuple(text for text in state.recent if text not in dropped)
    return replace(state, ahead=tuple(kept), recent=recent[-RECENT_MAX:])


def count_withdrawn(known: Recurring, ends: "Ends", now_ms: int) -> State:
    """Return the state with those of the withdrawn occurrences counted that ran all the same, and
    without those that are of no use any more.
    """
    state, kept = known.state, list[Withdrawn]()
    ahead = (occurrence_key(known.name, known.rule, each) for each in state.ahead)
    made_again = {*map(str, ahead), *state.recent}
    for each in state.withdrawn:
        key = TaskKey.parse(each.key)
        if each.key not in made_again:
            closed, is_open = ends.closed.get(key), ends.is_open(key, now_ms)
            if each.counts and closed is not None and _ran(closed):
                state = with_taken(state, key)
            if is_open or (occurrence_ms(key.uniqueness_key) or 0) > state.passed_ms:
                kept.append(replace(each, counts=each.counts and is_open))
        else:
            kept.append(each)
    return replace(state, withdrawn=tuple(kept))


def with_taken(state: State, key: TaskKey) -> State:
    """Return a state with one more occurrence that became a task."""
    return replace(state, taken=state.taken + 1, recent=(*state.recent, str(key))[-RECENT_MAX:])


def _ran(completion: Completion) -> bool:
    is_cancelled = completion.result is CompletionResult.CANCELLED
    return not is_cancelled and was_left_out(completion) is None


def is_of_withdrawn(state: State, completion: Completion) -> bool:
    """True if a completion is the end of a task that was withdrawn, and not of one that was made
    again for its time.
    """
    if completion.result is not CompletionResult.CANCELLED:
        return False
    text = str(completion.key)
    return any(each.key == text and completion.offset <= each.offset for each in state.withdrawn)


def _may_overlap(
    known: Recurring, due_ms: int, ends: "Ends", open_keys: Collection[TaskKey]
) -> bool:
    """True if an occurrence may be left out at its start, for earlier ones that were open at its
    time.
    """
    rule, state = known.rule, known.state
    before = (occurrence_key(known.name, rule, each) for each in state.ahead if each < due_ms)
    earlier = (*recent_before(state, due_ms), *before)
    return overlaps(rule, sum(k in open_keys or ends.was_open_at(k, due_ms) for k in earlier))


def without_left_out(
    known: Recurring, left_out: Collection[int], open_keys: list[TaskKey]
) -> list[TaskKey]:
    """Return the open occurrences that run one day: not those that are left out at their starts."""
    keys = {occurrence_key(known.name, known.rule, each) for each in left_out}
    return [key for key in open_keys if key not in keys]


def next_tick_ms(name: str, ahead: Iterable[int], due_ms: int) -> int | None:
    """Return when the tick follows that makes further occurrences; None where nothing is ahead.

    Each schedule has a moment of its own within a round, so that many of them do not have their
    ticks together.
    """
    later = [each for each in ahead if each > due_ms]
    own_ms = zlib.crc32(name.encode()) % ROUND_MS
    round_ends_ms = (due_ms - own_ms) // ROUND_MS * ROUND_MS + ROUND_MS + own_ms
    if later and later[0] > round_ends_ms:
        round_ends_ms += ROUND_MS
    within = [each for each in later if each <= round_ends_ms]
    return within[-1] if within else later[0] if later else None


def was_left_out(completion: Completion) -> str | None:
    """Return why an occurrence was left out at its start; None for another end."""
    dropped = completion.result is CompletionResult.DROPPED
    return completion.reason if dropped and completion.reason in _LEFT_OUT else None


@dataclass(frozen=True, slots=True)
class LateOccurrences:
    """Judges occurrences that start late; used from any thread."""

    definitions: DefinitionBook
    stores: Stores
    appender: TaskAppender

    def judge(self, task: StoredTask, partition: int, owned_since_ms: int) -> "Future[str | None]":
        """Answer why an occurrence is left out; None for one that runs, and for any other task."""
        return begun(self._judged(task.key, partition, owned_since_ms))

    def _judged(self, key: TaskKey, partition: int, owned_since_ms: int) -> Steps[str | None]:
        name, _, _ = key.uniqueness_key.rpartition("@")
        found = yield self.definitions.find(name_of(name))
        if found is None or found.ended:
            return None
        rule, state = (known := recurring_of(found)).rule, known.state
        due_ms = occurrence_ms(key.uniqueness_key)
        if due_ms is None or key != occurrence_key(name, rule, due_ms):
            return None
        if due_ms not in state.ahead:
            # Otherwise it was made at its time, or is another task.
            first_ms, last_ms = state.ended or (0, -1)
            is_ended = first_ms <= due_ms <= last_ms and str(key) not in state.recent
            return ENDED if is_ended else None
        open_then: list[TaskKey] = []
        if rule.overlap != "allow":
            before = [occurrence_key(name, rule, each) for each in state.ahead if each < due_ms]
            recent = recent_before(state, due_ms)
            open_then = yield from self._open_at(due_ms, [*recent, *before])
        if overlaps(rule, len(open_then)):
            return OVERLAPS
        if open_then or due_ms + rule.catch_up_ms >= owned_since_ms:
            return None
        claim: Claim | None = yield self.stores.ownership.read_watermark(partition)
        # Behind the watermark an earlier owner had it at hand, and may have begun it on time.
        was_at_hand = claim is not None and key.scheduled_ms < claim.watermark.watermark_ms
        return None if was_at_hand else MISSED

    def _open_at(self, due_ms: int, keys: list[TaskKey]) -> Steps[list[TaskKey]]:
        """Return those of the keys that had not ended at a time."""
        by_partition: dict[int, list[TaskKey]] = {}
        for key in keys:
            place = self.appender.partition_of(key.ordering_id)
            by_partition.setdefault(place, []).append(key)
        open_then: list[TaskKey] = []
        for place, some in by_partition.items():
            ends: Ends = yield from found_ends(self.stores, place, some)
            open_then += [key for key in some if ends.was_open_at(key, due_ms)]
        return open_then


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends of some occurrences, by what is durable."""

    closed: dict[TaskKey, Completion] = field(default_factory=dict)
    stored: set[TaskKey] = field(default_factory=set)
    """Those that are open and have a row."""

    def is_open(self, key: TaskKey, now_ms: int) -> bool:
        """True if an occurrence has not ended; without a row it is on its way for an hour."""
        is_on_its_way = now_ms - key.scheduled_ms < _STORED_WITHIN_MS
        return key not in self.closed and (key in self.stored or is_on_its_way)

    def was_open_at(self, key: TaskKey, at_ms: int) -> bool:
        """True if an occurrence had become a task and had not ended at a time."""
        closed = self.closed.get(key)
        if closed is None:
            return key in self.stored
        return closed.finished_ms > at_ms and was_left_out(closed) is None


def found_ends(stores: Stores, partition: int, keys: Sequence[TaskKey]) -> Steps[Ends]:
    """Find out which of the keys, of one partition, have ended."""
    completions: Mapping[TaskKey, Completion] = yield stores.status.find_completions(
        partition, keys
    )
    ends = Ends()
    unsure = []
    for key in keys:
        completion = completions.get(key)
        if completion is not None and completion.closes(_LAST_RECORD):
            ends.closed[key] = completion
        else:
            unsure.append(key)
    if not unsure:
        return ends
    # Only the row tells whether a later record opened the key again.
    rows: Mapping[TaskKey, StoredTask] = yield stores.schedule.find_tasks(partition, unsure)
    for key in unsure:
        completion, row = completions.get(key), rows.get(key)
        offset = BEFORE_EVERY_RECORD if row is None else row.offset
        if completion is not None and completion.closes(offset):
            ends.closed[key] = completion
        elif row is not None:
            ends.stored.add(key)
    return ends
