"""Counts every event of a node once; all views read these numbers.

Metrics, a node's report, the hourly counts and the self-check are views of the same numbers. An
event of a single task costs an increment or two of cells that were looked up before. Then the event
is passed on to all listeners. Never raises, never blocks, and keeps no event.
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from hourhand.actors.model.flow.flow import REST, LimitKey
from hourhand.actors.model.operations import events
from hourhand.actors.model.operations.events import Event
from hourhand.actors.model.operations.oversight import LATENESS_MS, RateShare
from hourhand.actors.model.task.status import AttemptResult
from hourhand.actors.model.values.display import log_raised
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.observe.hourly_counts import HourlyCounts
from hourhand.scheduler.observe.meters import OF_A_PARTITION, BoundedLabels, Meters
from hourhand.scheduler.observe.metric_catalogue import (
    ATTEMPT_RESULTS,
    ERROR_CLASSES_MAX,
    KINDS_MAX,
    TIMER_TAGS_MAX,
)
from hourhand.scheduler.observe.self_check import PARTITION_EVENTS, SHARE_MASK, SelfCheck
from hourhand.scheduler.observe.troubles import NodeTroubles
from hourhand.scheduler.runtime.user_code import is_interrupt

_DEAD_LETTER = "dead_letter"
_SUCCESS = AttemptResult.SUCCESS.value
_WELL = (AttemptResult.SUCCESS, AttemptResult.SNOOZED, AttemptResult.DROPPED)
_RATES = ("limit_rate_own", "limit_rate_lent", "limit_rate_borrowed")


class NodeTelemetry:
    """Implements ``Telemetry``; may be read from any thread.

    ``listeners`` get every event, each shielded from errors of the others.
    """

    def __init__(self, clock: Clock, *listeners: Telemetry) -> None:
        self.meters = Meters()
        self.hours = HourlyCounts()
        self.troubles = NodeTroubles(clock)
        self._clock = clock
        self._troubled = self.troubles.troubled
        self._listeners = tuple(each.emit for each in listeners)
        self._check: Callable[[Event], None] = _tell_nobody
        self._watched_shares = 0
        self._running: Mapping[Any, Any] = {}
        self._error_classes = BoundedLabels(ERROR_CLASSES_MAX)
        self._timer_tags = BoundedLabels(TIMER_TAGS_MAX)
        self._kinds = BoundedLabels(KINDS_MAX)
        self._given_ms: dict[int, float] = {}
        """By partition that may not start tasks yet, the time at which the group assigned it."""
        self._delays = self.meters["attempt_delay_seconds"]
        self._durations = self.meters["attempt_seconds"]
        self._attempts = self.meters["attempts_total"]
        self._attempts_of_kinds = self.meters["kind_attempts_total"]
        self._good = {result: self._attempts[result, ""] for result in ATTEMPT_RESULTS}
        """Cells for attempts without an error, so that none of them builds a key."""
        self._closed = self.meters["tasks_closed_total"]
        self._retries = self.meters.only("attempt_retries_total")
        self._limited = self.meters.only("attempt_limited_seconds")
        self._enqueued = self.meters.only("records_enqueued_total")
        self._enqueue = self.meters.only("enqueue_seconds")
        self.meters.derive("attempts_started_total", self._started)
        self.meters.derive("watermark_age_seconds", self._watermark_age)
        self._handlers: dict[type, Callable[[Any], None]] = {
            **self._handlers_of_tasks(),
            **self._handlers_of_a_node(),
            **self._plain_counters(),
            **self._handlers_of_buckets(),
        }

    def emit(self, event: Event) -> None:
        """Count the event, and pass it on."""
        try:
            count = self._handlers.get(event.__class__)
            if count is not None:
                count(event)
        except BaseException as error:  # noqa: BLE001 - a count is never worth a task
            _note(error)
        for tell in self._listeners:
            try:
                tell(event)
            except BaseException as error:  # noqa: BLE001 - a telemetry may be anybody's
                _note(error)

    def add_listener(self, telemetry: Telemetry) -> None:
        """Add a listener, before the first event; it is called after the others."""
        self._listeners = (*self._listeners, telemetry.emit)

    def gauges_of(self, partition: int) -> dict[str, int]:
        """Return the gauges of a partition, times in milliseconds."""
        cells = {name: self.meters[name].get(partition) for name in OF_A_PARTITION}
        return {name: int(cell.value) for name, cell in cells.items() if cell is not None}

    def lateness_of(self, partition: int) -> tuple[int, ...]:
        """Return the numbers of a partition's attempts by lateness, with the bounds
        ``LATENESS_MS``.
        """
        cell = self._delays.get(partition)
        return (0,) * (len(LATENESS_MS) + 1) if cell is None else cell.within(LATENESS_MS)

    def note_limited(self, waiting: Mapping[str, int]) -> None:
        """Set the numbers of tasks that wait for each limit."""
        gauges = self.meters["limited_tasks"]
        for limit in gauges.keys() | waiting.keys():
            gauges[limit].value = waiting.get(limit, 0)

    def note_rates(
        self, rates_per_s: Mapping[LimitKey, float], share: float, loans: Sequence[RateShare]
    ) -> None:
        """Set this node's current part of each rate limit, and the rates that it lends and
        borrows.
        """
        own, lent, borrowed = (self.meters[name] for name in _RATES)
        for (limit, value), rate_per_s in rates_per_s.items():
            if value != REST:
                continue
            of_limit = [
                (rates_per_s.get(LimitKey(limit, each.value), rate_per_s), each)
                for each in loans
                if each.limit == limit
            ]
            own[limit].value = rate_per_s * share
            lent[limit].value = sum(rate * each.lent for rate, each in of_limit)
            borrowed[limit].value = sum(rate * each.borrowed for rate, each in of_limit)

    def check_with(self, check: SelfCheck) -> None:
        """Pass events of watched tasks, and of partitions, to the self-check."""
        self._check, self._watched_shares = check.take, check.watched_shares
        self._running = check.running
        for kind in PARTITION_EVENTS:
            self._handlers[kind] = partial(_both, self._handlers[kind], check.take)

    def _handlers_of_tasks(self) -> dict[type, Callable[[Any], None]]:
        meters = self.meters
        return {
            events.AttemptStarted: self._on_started,
            events.AttemptFinished: self._on_finished,
            events.TaskClosed: self._on_closed,
            events.TasksSucceeded: self._on_succeeded,
            events.TaskEnqueued: self._on_enqueued,
            events.BulkEnqueued: self._on_bulk,
            events.TasksStored: self.hours.count_stored,
            events.BatchPersisted: self._on_persisted,
            events.WindowLoaded: self._on_loaded,
            events.PartitionLoadReported: self._on_load,
            events.OrderingsMeasured: self._on_orderings,
            events.AttemptStuck: lambda e: _add(meters["attempts_stuck_total"][e.limit]),
            events.RetriesExhausted: self._on_exhausted,
            events.TaskHeld: self._on_task_held,
            events.CommandDecided: self._on_command,
            events.WatermarkAdvanced: self._on_watermark,
            events.WatermarkHeld: self._on_watermark_held,
            events.RecordPoisoned: self._on_poison,
            events.PartitionHeld: partial(self._on_hold, 1),
            events.PartitionReleased: partial(self._on_hold, 0),
            events.OutcomesTold: self._on_outcomes_told,
            events.OutcomesHeld: self._on_outcomes_held,
            events.RelayRecordRefused: self._on_relay_refused,
            events.MessageRelayed: lambda e: meters.only("relayed_late_seconds").observe(e.late_ms),
            events.TimerPopped: lambda e: meters["timer_pop_late_seconds"][e.result].observe(
                e.late_ms
            ),
            events.TimerTagChanged: self._on_tag,
            events.PromiseDoubted: lambda e: _add(meters["promise_doubts_total"][e.promise]),
            events.SelfChecked: lambda e: _add(meters.only("self_checked_tasks_total"), e.tasks),
        }

    def _handlers_of_a_node(self) -> dict[type, Callable[[Any], None]]:
        return {
            events.AssignmentReceived: self._on_given,
            events.PartitionAssigned: self._on_assigned,
            events.PartitionRevoked: self._on_revoked,
            events.PartitionLost: self._on_lost,
            events.CatchUpEnded: self._on_catch_up,
            events.TreeRebuilt: self._on_rebuilt,
            events.WorkersExhausted: self._on_workers_exhausted,
            events.WorkersFreed: self._on_workers_freed,
            events.LoopBlocked: self._on_loop_blocked,
            events.LoopFreed: self._on_loop_freed,
            events.StoreCalled: self._on_store,
            events.LogCalled: self._on_log,
            events.LimitChanged: lambda e: _add(self.meters["limit_changes_total"][e.limit]),
        }

    def _plain_counters(self) -> dict[type, Callable[[Any], None]]:
        names = {
            events.RecordMisplaced: "misplaced_records_total",
            events.AttemptRefused: "attempts_refused_total",
            events.OutcomeRefused: "outcomes_refused_total",
            events.AttemptAbandoned: "attempts_abandoned_total",
        }
        found: dict[type, Callable[[Any], None]] = {
            kind: partial(_count_one, self.meters.only(name)) for kind, name in names.items()
        }
        dropped = self.meters.only("window_dropped_tasks_total")
        found[events.WindowShrunk] = lambda event: _add(dropped, event.dropped)
        return found

    def _handlers_of_buckets(self) -> dict[type, Callable[[Any], None]]:
        return {
            events.OwnerBegan: self._on_owner_began,
            events.TransactionCommitted: self._on_transaction,
            events.BucketSplit: partial(_count_one, self.meters.only("bucket_splits_total")),
        }

    # Runs once per task: the code of ``Distribution.observe`` without its frame.

    def _on_started(self, event: events.AttemptStarted) -> None:
        cell, delay_ms = self._delays[event.partition], event.delay_ms
        if event.limited_ms:
            limited_ms = max(0, min(event.limited_ms, delay_ms))
            self._limited.observe(limited_ms)
            delay_ms -= limited_ms
        cell.counts[bisect_left(cell.bounds, delay_ms)] += 1
        cell.total += delay_ms
        if event.attempt > 1:
            self._retries.value += 1
        shares = self._watched_shares
        if shares and hash(event.key.ordering_id) & SHARE_MASK < shares:
            self._check(event)

    def _on_finished(self, event: events.AttemptFinished) -> None:
        result = event.result._value_
        cell, duration_ms = self._durations[result], event.duration_ms
        cell.counts[bisect_left(cell.bounds, duration_ms)] += 1
        cell.total += duration_ms
        if event.error_class is None:
            self._good[result].value += 1
        else:
            self._attempts[result, self._error_classes.of(event.error_class)].value += 1
        if event.kind is not None:
            self._attempts_of_kinds[self._kinds.of(event.kind), result].value += 1
        if event.result not in _WELL:
            self.troubles.fail(event)
        if self._running and hash(event.key.ordering_id) & SHARE_MASK < self._watched_shares:
            self._check(event)

    def _on_closed(self, event: events.TaskClosed) -> None:
        self._closed[event.result._value_].value += 1
        self.hours.count_closed(event)
        if self._troubled:
            self.troubles.end(event.key)
        shares = self._watched_shares
        if shares and hash(event.key.ordering_id) & SHARE_MASK < shares:
            self._check(event)

    def _on_succeeded(self, event: events.TasksSucceeded) -> None:
        finished = event.finished
        cell = self._durations[_SUCCESS]
        counts, bounds, of_kinds = cell.counts, cell.bounds, self._attempts_of_kinds
        for each in finished:
            counts[bisect_left(bounds, each.duration_ms)] += 1
            cell.total += each.duration_ms
            if each.kind is not None:
                of_kinds[self._kinds.of(each.kind), _SUCCESS].value += 1
        self._good[_SUCCESS].value += len(finished)
        self._closed[_SUCCESS].value += len(finished)
        self.hours.count_succeeded(event)
        if self._troubled:
            for each in finished:
                self.troubles.end(each.key)
        if shares := self._watched_shares:
            watched = [e for e in finished if hash(e.key.ordering_id) & SHARE_MASK < shares]
            for single in events.TasksSucceeded(event.partition, tuple(watched)).singles():
                self._check(single)

    def _on_enqueued(self, event: events.TaskEnqueued) -> None:
        self._enqueued.value += 1
        self._enqueue.observe(event.duration_ms)

    # Once per batch, load or command.

    def _on_bulk(self, event: events.BulkEnqueued) -> None:
        self._enqueued.value += event.tasks

    def _on_persisted(self, event: events.BatchPersisted) -> None:
        self.meters.only("batch_persist_seconds").observe(event.duration_ms)
        self.meters["tasks_persisted_total"][event.partition].value += event.tasks
        self.meters["commands_read_total"][event.partition].value += event.commands

    def _on_loaded(self, event: events.WindowLoaded) -> None:
        self.meters.only("window_load_seconds").observe(event.duration_ms)
        self.meters["tasks_loaded_total"][event.partition].value += event.tasks
        self.troubles.load(event)

    def _on_load(self, event: events.PartitionLoadReported) -> None:
        self.meters["waiting_tasks"][event.partition].value = event.waiting
        self.meters["executing_tasks"][event.partition].value = event.executing

    def _on_orderings(self, event: events.OrderingsMeasured) -> None:
        self.meters["busy_ids"][event.partition].value = event.busy
        self.meters["held_ids"][event.partition].value = event.held
        self.meters["oldest_overdue_seconds"][event.partition].value = event.overdue_ms

    def _on_exhausted(self, event: events.RetriesExhausted) -> None:
        self.meters["retries_exhausted_total"][event.on_exhausted].value += 1
        if event.on_exhausted == _DEAD_LETTER:
            self.meters["dead_letters_total"]["exhausted"].value += 1
        self.troubles.exhaust(event)

    def _on_task_held(self, event: events.TaskHeld) -> None:
        self.meters["tasks_held_total"][self._kinds.of(event.kind or "")].value += 1
        self.troubles.hold(event)

    def _on_command(self, event: events.CommandDecided) -> None:
        self.meters["commands_total"][event.kind.value, event.outcome.value].value += 1
        self.hours.count_command(event)
        self.troubles.decide(event)

    def _on_hold(self, held: int, event: events.PartitionHeld | events.PartitionReleased) -> None:
        self.meters["partition_held"][event.partition].value = held

    def _on_poison(self, event: events.RecordPoisoned) -> None:
        self.meters.only("poison_records_total").value += 1
        self.meters["dead_letters_total"]["poison"].value += 1

    def _on_relay_refused(self, event: events.RelayRecordRefused) -> None:
        self.meters.only("relay_records_refused_total").value += 1
        self.meters["dead_letters_total"]["relay"].value += 1

    def _on_outcomes_told(self, event: events.OutcomesTold) -> None:
        self.meters.only("outcomes_told_total").value += event.outcomes
        self.meters["outcomes_lag_seconds"][event.partition].value = event.late_ms

    def _on_outcomes_held(self, event: events.OutcomesHeld) -> None:
        self.meters.only("outcomes_failures_total").value += 1
        self.meters["outcomes_lag_seconds"][event.partition].value = event.late_ms

    def _on_tag(self, event: events.TimerTagChanged) -> None:
        name = "timer_tags_total" if event.gained > 0 else "timer_tags_removed_total"
        self.meters[name][self._timer_tags.of(event.tag)].value += abs(event.gained)

    def _on_watermark(self, event: events.WatermarkAdvanced) -> None:
        self.meters["watermark_timestamp_seconds"][event.partition].value = event.watermark_ms
        self.meters["straggler_ids"][event.partition].value = event.stragglers
        self.meters["watermark_held_ids"][event.partition].value = 0

    def _on_watermark_held(self, event: events.WatermarkHeld) -> None:
        self.meters["watermark_timestamp_seconds"][event.partition].value = event.watermark_ms
        self.meters["watermark_held_ids"][event.partition].value = event.blocked

    def _on_store(self, event: events.StoreCalled) -> None:
        self.meters["store_call_seconds"][event.call].observe(event.duration_ms)
        if event.rows:
            self.meters["store_group_rows"][event.call].observe(event.rows)
        if event.error is not None:
            self.meters["store_errors_total"][event.call, event.error].value += 1

    def _on_log(self, event: events.LogCalled) -> None:
        self.meters["log_call_seconds"][event.call].observe(event.duration_ms)
        if event.error is not None:
            self.meters["log_errors_total"][event.call, event.error].value += 1

    # Once per change of ownership.

    def _on_given(self, event: events.AssignmentReceived) -> None:
        self._given_ms[event.partition] = self._clock.monotonic_ms()

    def _on_assigned(self, event: events.PartitionAssigned) -> None:
        self.meters.only("owned_partitions").value += 1
        self.meters["partition_changes_total"]["assigned"].value += 1
        self.troubles.assign(event)

    def _on_revoked(self, event: events.PartitionRevoked) -> None:
        self.meters["partition_changes_total"]["revoked"].value += 1
        if not event.drained:
            self.meters.only("drains_unfinished_total").value += 1
        self._forget(event)

    def _on_lost(self, event: events.PartitionLost) -> None:
        self.meters["partition_changes_total"]["lost"].value += 1
        self._forget(event)

    def _forget(self, event: events.PartitionRevoked | events.PartitionLost) -> None:
        self.meters.only("owned_partitions").value -= 1
        self._given_ms.pop(event.partition, None)
        for name in OF_A_PARTITION:
            self.meters[name].forget(event.partition)
        self.hours.forget(event.partition)
        self.troubles.let_go(event)

    def _on_catch_up(self, event: events.CatchUpEnded) -> None:
        self.meters.only("catch_up_seconds").observe(event.waited_ms)
        given_ms = self._given_ms.pop(event.partition, None)
        if given_ms is not None:
            gap_ms = self._clock.monotonic_ms() - given_ms
            self.meters.only("rebalance_gap_seconds").observe(gap_ms)
        if not event.complete:
            self.meters.only("catch_ups_incomplete_total").value += 1
        self.troubles.catch_up(event)

    def _on_rebuilt(self, event: events.TreeRebuilt) -> None:
        self.meters.only("tree_rebuilds_total").value += 1
        self.troubles.rebuild(event)

    def _on_workers_exhausted(self, event: events.WorkersExhausted) -> None:
        self.meters["workers_exhausted"][event.pool].value = 1
        self.meters["worker_shortages_total"][event.pool].value += 1

    def _on_workers_freed(self, event: events.WorkersFreed) -> None:
        self.meters["workers_exhausted"][event.pool].value = 0

    def _on_loop_blocked(self, _event: events.LoopBlocked) -> None:
        self.meters.only("loop_blocked").value = 1
        self.meters.only("loop_blocks_total").value += 1

    def _on_loop_freed(self, _event: events.LoopFreed) -> None:
        self.meters.only("loop_blocked").value = 0

    # With Kafka alone.

    def _on_owner_began(self, event: events.OwnerBegan) -> None:
        self.meters["partition_changes_total"]["assigned"].value += 1
        self.meters.only("rebalance_gap_seconds").observe(event.waited_ms)

    def _on_transaction(self, event: events.TransactionCommitted) -> None:
        self.meters.only("transaction_records").observe(event.records)
        self.meters.only("messages_moved_total").value += event.moved
        self.meters["dead_letters_total"]["relay"].value += event.put_aside

    # Gauges that are computed at each read.

    def _started(self) -> Mapping[Any, float]:
        return {label: sum(cell.counts) for label, cell in list(self._delays.items())}

    def _watermark_age(self) -> Mapping[Any, float]:
        cells = list(self.meters["watermark_timestamp_seconds"].values())
        oldest_ms = min((cell.value for cell in cells), default=None)
        return {} if oldest_ms is None else {"": (self._clock.now_ms() - oldest_ms) / 1000}


def _both(count: Callable[[Any], None], check: Callable[[Event], None], event: Event) -> None:
    count(event)
    check(event)


def _note(error: BaseException) -> None:
    if is_interrupt(error):
        raise error
    log_raised(logging.getLogger("hourhand"), "a telemetry raised", level=logging.DEBUG)


def _tell_nobody(event: Event) -> None:
    del event


def _add(cell: Any, amount: float = 1) -> None:
    cell.value += amount


def _count_one(cell: Any, event: Event) -> None:
    del event
    cell.value += 1
