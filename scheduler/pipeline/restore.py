"""Fills a target with the whole content of another installation, step by step.

Decides the order, and which steps a job that was stopped need not repeat. Until the last step no
node can begin with the target: it has no number of partitions yet. Decides also the begin of the
new partitions: watermarks, stragglers and epochs, so that no open task is skipped (P8) and no fence
decreases.

``hourhand pipeline import`` restores an export into an empty installation of any kind. Everything
arrives unchanged, except log offsets, which are renumbered because the new log begins empty, and
write times, which are the new installation's own.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from math import gcd

import msgspec
from msgspec.structs import replace
from pyspark.sql import DataFrame, Observation, SparkSession

from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.ownership import (
    EPOCH_SHIFT,
    Claim,
    Straggler,
    Watermark,
    initial_watermark,
)
from hourhand.actors.model.operations.pauses import Pause, PauseScope
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.errors import (
    InstallationBusy,
    InvalidInput,
    SettingsInvalid,
    StoreUnavailable,
)
from hourhand.scheduler import wiring
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.pipeline.applying import apply_log
from hourhand.scheduler.pipeline.copying import Destination, write_rows
from hourhand.scheduler.pipeline.export import Manifest, read_exported, read_manifest
from hourhand.scheduler.pipeline.job import JobOptions, Say, Summary, spark_job
from hourhand.scheduler.pipeline.options import Options
from hourhand.scheduler.pipeline.quiescence import keep_nodes_out, log_name, store_name
from hourhand.scheduler.pipeline.state_frames import definitions_frame, outcomes_frame, rows_frame
from hourhand.scheduler.pipeline.state_tables import (
    DEFINITIONS,
    LOG,
    OUTCOMES,
    OWNERS,
    claims_of,
    compared_columns,
)
from hourhand.scheduler.pipeline.transform_archive import fingerprint, fingerprint_columns
from hourhand.scheduler.pipeline.transform_move import lasting, moved
from hourhand.scheduler.ports.bulk import BulkTable
from hourhand.scheduler.ports.transfer import TransferStore
from hourhand.scheduler.runtime.answers import JOB_S, answered

COPIED = (*(table.value for table in BulkTable), DEFINITIONS, OUTCOMES)
"""Tables that are copied, in this order."""
Claims = Mapping[int, Claim | None]


def highest_epoch(claims: Claims) -> int:
    """Return the highest owner epoch; 0 if no partition ever had an owner."""
    return max((claim.epoch for claim in claims.values() if claim is not None), default=0)


def sources_of(partition: int, old_count: int, new_count: int) -> list[int]:
    """Return the old partitions from which an ordering id may move to a new one.

    Both are remainders of one hash, so they agree modulo each divisor of both counts.
    """
    common = gcd(old_count, new_count)
    return [each for each in range(old_count) if each % common == partition % common]


def new_watermark(
    partition: int, claims: Claims, new_count: int, stragglers_max: int, now_ms: int
) -> Watermark:
    """Return the watermark of a new partition: the lowest of its old partitions.

    The next offset is before all records: the new log is read from its beginning.
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
        # The last one of several pending retentions counts for all.
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
    """Return the watermark of a partition in which a task at ``earliest_ms`` may be open."""
    if earliest_ms is None or earliest_ms >= watermark.watermark_ms:
        return watermark
    stragglers = tuple(each for each in watermark.stragglers if each.first_ms < earliest_ms)
    return replace(watermark.lowered_to(earliest_ms), stragglers=stragglers)


def _earliest(held: Iterable[Straggler]) -> list[Straggler]:
    return sorted(held, key=lambda each: (each.first_ms, each.ordering_id))


def moved_pauses(pauses: Iterable[Pause], old_count: int, new_count: int) -> list[Pause]:
    """Return the new pauses: the old ones, extended where partitions were merged."""
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


@dataclass(frozen=True, slots=True)
class Contents:
    """The content for a target."""

    identity: str
    """Identifies this state of this source."""
    tables: Mapping[str, DataFrame]
    """The tables in ``COPIED``."""
    log: DataFrame
    """Records that no node has read."""
    claims: Claims
    """By partition of the source."""
    ends: Mapping[int, int]
    """Ends of the source's log."""
    pauses: Sequence[Pause]
    """Pauses by operators."""
    limits: Sequence[LimitChange]
    """Limits that operators changed."""
    confirm: Callable[[], None]
    """Raises an error if the source has changed since."""


@dataclass(slots=True)
class _RestoreProgress:
    """The finished steps; kept in the target as its note."""

    source: str
    partitions: int
    copied: dict[str, dict[str, object]] = field(default_factory=dict)
    log: dict[str, int] | None = None
    earliest: dict[str, int] = field(default_factory=dict)


@contextmanager
def opened_target(target: Options, partitions: int) -> Iterator[TransferStore]:
    """Open a target and keep nodes out of it; raises an error if it cannot be filled.

    The log must have that number of partitions and no record, and no node may run.
    """
    settings = target.settings()
    with ExitStack() as opened:
        # Opened first, because it makes the folder of an embedded installation.
        writer = wiring.open_writer(settings)
        opened.callback(writer.close)
        if writer.partition_count() != partitions:
            raise InvalidInput(
                f"the target's {log_name(settings)} has {writer.partition_count()} partitions,"
                f" {partitions} are needed: name one that does not exist yet, or has that number"
            )
        opened.callback(keep_nodes_out(settings))
        _require_silence(settings)
        store = wiring.open_transfer(settings)
        opened.callback(store.close)
        yield store


def _require_silence(settings: Settings) -> None:
    with closing(wiring.open_tail(settings)) as tail:
        if members := tail.members():
            raise InstallationBusy(
                f"{members} members of group.id {settings.group.id!r} are at work, maybe on the"
                " target: stop all nodes first"
            )
        held = [each for each, span in tail.spans({}).items() if span.first < span.end]
    if held:
        raise InvalidInput(
            f"the target's {log_name(settings)} holds records already, in partition {held[0]}:"
            " name one that does not exist yet"
        )


class Restore:
    """One run of a job that fills a target."""

    def __init__(self, spark: SparkSession, target: Options, partitions: int, say: Say) -> None:
        self._spark = spark
        self._target = target
        self._settings = target.settings()
        self._partitions = partitions
        self._say = say

    def keep_nodes_out(self, store: TransferStore, identity: str) -> _RestoreProgress:
        """Begin with a target, or continue; from then on every node refuses it.

        ``identity`` is the identity of the content.
        """
        progress = self._progress(store, identity)
        self._note(store, progress)
        return progress

    def give_up(self, store: TransferStore) -> None:
        """Leave a target as it was found, if nothing was written to it."""
        if store.is_empty():
            store.finish(None)

    def run(self, store: TransferStore, contents: Contents) -> Summary:
        """Do the remaining steps; the last one opens the target to nodes."""
        progress = self.keep_nodes_out(store, contents.identity)
        destination = Destination(self._target, self._own(contents.claims))
        for table in COPIED:
            if table not in progress.copied:
                copied = self._copy(table, contents.tables[table], destination)
                progress.copied[table] = copied
                self._note(store, progress)
                self._say(f"{table}: {copied['rows']} rows copied and compared")
        if progress.log is None:
            applied = apply_log(contents.log, destination, contents.ends, self._partitions)
            progress.log = applied.counts
            progress.earliest = {str(each): at for each, at in applied.earliest.items()}
            self._note(store, progress)
            self._say(f"log: {progress.log['records']} unread records applied")
        contents.confirm()
        self._begin_partitions(contents, destination, progress)
        store.finish(self._partitions)
        return {"copied": progress.copied, "log": progress.log}

    def _progress(self, store: TransferStore, identity: str) -> _RestoreProgress:
        note = store.read_note()
        name = store_name(self._settings)
        if note is None:
            if not store.is_empty():
                raise InvalidInput(
                    f"the target's {name} holds tasks, completions or owners already: name one"
                    " that is empty or does not exist yet"
                )
            return _RestoreProgress(identity, self._partitions)
        progress = _RestoreProgress(**json.loads(note))
        if (progress.source, progress.partitions) != (identity, self._partitions):
            raise InvalidInput(
                f"the target's {name} was begun from another source, or from this one before nodes"
                " worked or records arrived there again: name one that is empty, and remove this"
            )
        return progress

    def _note(self, store: TransferStore, progress: _RestoreProgress) -> None:
        if not store.write_note(json.dumps(asdict(progress))):
            raise InvalidInput(
                f"a node has begun with the target's {store_name(self._settings)}: stop it, and"
                " name one that is empty"
            )

    def _own(self, claims: Claims) -> dict[int, int]:
        """Own the target's partitions, above every owner of the source and every earlier run."""
        epoch = max(1, highest_epoch(claims))
        now_ms = wiring.open_clock().now_ms()
        stores, bulk = wiring.open_stores(self._settings), wiring.open_bulk(self._settings)
        try:
            for partition in range(self._partitions):
                mark = self._watermark(claims, partition, now_ms)
                bulk.begin_partition(partition, Claim(epoch, mark))
            asked = [stores.ownership.claim(each, now_ms) for each in range(self._partitions)]
            return {each: answered(claiming, JOB_S).epoch for each, claiming in enumerate(asked)}
        finally:
            bulk.close()
            stores.close()

    def _copy(self, table: str, rows: DataFrame, destination: Destination) -> dict[str, object]:
        """Write a table and compare the stored rows with the given ones."""
        columns = compared_columns(table)
        expected = moved(rows, table, self._partitions)
        # Observed during the write: another read of the source would double the time.
        noted = Observation()
        observed = expected.observe(noted, *fingerprint_columns(columns))
        written = write_rows(observed, table, destination)
        if not self._is_there(table, expected, noted):
            raise StoreUnavailable(
                f"the target's {store_name(self._settings)} does not hold the {written} rows of"
                f" {table} as they were written: look at its servers, then run the job once more"
            )
        return noted.get

    def _is_there(self, table: str, expected: DataFrame, noted: Observation) -> bool:
        columns, stored = compared_columns(table), self._stored(table)
        if table == OUTCOMES:
            # Outcomes expire one by one, so there may be fewer to read again than were copied.
            return expected.select(*columns).exceptAll(stored.select(*columns)).isEmpty()
        if table == DEFINITIONS:
            now_s = wiring.open_clock().now_ms() / 1000
            wanted = fingerprint(lasting(expected, now_s), columns).first()
            return fingerprint(lasting(stored, now_s), columns).first() == wanted
        found = fingerprint(stored, columns).first()
        return found is not None and found.asDict() == noted.get

    def _stored(self, table: str) -> DataFrame:
        if table == DEFINITIONS:
            return definitions_frame(self._spark, self._target, range(self._partitions))
        if table == OUTCOMES:
            return outcomes_frame(self._spark, self._target)
        return rows_frame(self._spark, self._target, table)

    def _watermark(self, claims: Claims, partition: int, now_ms: int) -> Watermark:
        stragglers_max = self._settings.tree.watermark.stragglers_max
        return new_watermark(partition, claims, self._partitions, stragglers_max, now_ms)

    def _begin_partitions(
        self, contents: Contents, destination: Destination, progress: _RestoreProgress
    ) -> None:
        """Store the begin of each partition, the pauses, and changed limits."""
        now_ms = wiring.open_clock().now_ms()
        with closing(wiring.open_stores(self._settings)) as stores:
            saves = []
            for partition, epoch in destination.epochs.items():
                mark = self._watermark(contents.claims, partition, now_ms)
                mark = lowered(mark, progress.earliest.get(str(partition)))
                mark = replace(mark, write_time=(epoch + 1 << EPOCH_SHIFT) - 1)
                saves.append(stores.ownership.save_watermark(partition, epoch, mark))
            for each in saves:
                answered(each, JOB_S)
            pauses = moved_pauses(contents.pauses, len(contents.claims), self._partitions)
            config = answered(stores.oversight.read_config(OperatorConfig()), JOB_S)
            if (pauses or contents.limits) and not (config.pauses or config.limits):
                filled = replace(config.with_pauses(pauses), limits=tuple(contents.limits))
                answered(stores.oversight.replace_config(filled), JOB_S)


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The folder of the export, and the options."""

    folder: str


def run_import(job: JobOptions, plan: ImportPlan) -> Summary:
    """Import everything; raises InvalidInput, SettingsInvalid, InstallationBusy, FolderLocked."""
    folder = plan.folder.rstrip("/")
    settings = job.source.settings()
    with spark_job("import", job) as spark:
        manifest = read_manifest(spark, folder)
        if settings.log == "embedded" and settings.topic.partitions != manifest.partitions:
            raise SettingsInvalid(
                f"topic.partitions is {settings.topic.partitions}, but {folder} was exported from"
                f" {manifest.partitions} partitions: set topic.partitions to {manifest.partitions},"
                " and change the number afterwards with `hourhand pipeline repartition`"
            )
        summary: Summary = {
            "job": "import",
            "dryRun": job.dry_run,
            "made": manifest.made,
            "partitions": manifest.partitions,
        }
        if job.dry_run:
            read_exported(spark, folder, manifest, job.say)
            return {**summary, "tables": manifest.tables}
        return {**summary, **_fill(spark, job, manifest, folder)}


def _fill(spark: SparkSession, job: JobOptions, manifest: Manifest, folder: str) -> Summary:
    count = manifest.partitions
    target = job.source.with_settings({"topic.partitions": str(count)})
    with opened_target(target, count) as store:
        restore = Restore(spark, target, count, job.say)
        # A node that began while the export is being checked could not be stopped.
        restore.keep_nodes_out(store, manifest.digest)
        try:
            tables = dict(read_exported(spark, folder, manifest, job.say))
        except BaseException:
            restore.give_up(store)
            raise
        filled = restore.run(store, _contents(manifest, tables))
    settings = target.settings()
    return {**filled, "into": {"log": log_name(settings), "store": store_name(settings)}}


def _contents(manifest: Manifest, tables: Mapping[str, DataFrame]) -> Contents:
    return Contents(
        identity=manifest.digest,
        tables={name: tables[name] for name in COPIED},
        log=tables[LOG],
        claims=claims_of(tables[OWNERS], manifest.partitions),
        ends={int(each): end for each, end in manifest.ends.items()},
        pauses=tuple(msgspec.convert(manifest.pauses, list[Pause])),
        limits=tuple(msgspec.convert(manifest.limits, list[LimitChange])),
        confirm=_nothing_changes,
    )


def _nothing_changes() -> None:
    """Do nothing: an export does not change; it was compared with its manifest."""
