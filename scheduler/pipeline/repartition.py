"""``hourhand pipeline repartition``: everything into a new log and store, with M partitions.

The number of partitions is fixed for the life of a topic, so another number needs another topic and
another keyspace (or folder). The cluster is stopped meanwhile; the source is only read. The next
run finishes one that was stopped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f

from hourhand.actors.model.values.errors import InvalidInput, SettingsInvalid
from hourhand.scheduler import wiring
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.pipeline.job import JobOptions, Summary, spark_job
from hourhand.scheduler.pipeline.options import Options
from hourhand.scheduler.pipeline.quiescence import (
    SETTLE_S,
    Quiescence,
    QuiescentState,
    at_rest,
    log_name,
    store_name,
)
from hourhand.scheduler.pipeline.restore import COPIED, Contents, Restore, opened_target
from hourhand.scheduler.pipeline.state_frames import (
    definitions_frame,
    log_frame,
    outcomes_frame,
    rows_frame,
)
from hourhand.scheduler.pipeline.state_tables import DEFINITIONS, OUTCOMES

PARTITIONS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class RepartitionPlan:
    """The number of partitions, and the new installation."""

    to: int
    into: Mapping[str, str] = field(default_factory=dict)
    """Settings of the new installation that differ from the old one's, by dotted names."""
    into_config: str | None = None
    """Its settings file; by default the old one's."""
    settle_s: float = SETTLE_S


def run_repartition(job: JobOptions, plan: RepartitionPlan) -> Summary:
    """Move everything; raises InstallationBusy, FolderLocked, InvalidInput, SettingsInvalid."""
    target = target_of(job.source, plan)
    require_apart(job.source.settings(), target.settings())
    with at_rest(job.source, plan.settle_s) as quiescence, spark_job("repartition", job) as spark:
        count = quiescence.state.partition_count
        if plan.to == count:
            raise InvalidInput(
                f"--to {plan.to} is the number of partitions there is already: to move without"
                " changing it, use `hourhand pipeline export` and `import`"
            )
        source = job.source.with_settings({"topic.partitions": str(count)})
        contents = contents_of(spark, source, quiescence)
        summary: Summary = {
            "job": "repartition",
            "dryRun": job.dry_run,
            "from": count,
            "to": plan.to,
            "unread": quiescence.state.unread,
        }
        if job.dry_run:
            rows = {name: {"rows": contents.tables[name].count()} for name in COPIED}
            return {**summary, "copied": rows}
        for line in wiring.migrate(target.settings()):
            job.say(f"repartition: {line}")
        with opened_target(target, plan.to) as store:
            filled = Restore(spark, target, plan.to, job.say).run(store, contents)
    return {**summary, **filled, "into": _named(target.settings())}


def target_of(source: Options, plan: RepartitionPlan) -> Options:
    """Return the options of the new installation; SettingsInvalid for an impossible count."""
    if not 1 <= plan.to <= PARTITIONS_MAX:
        raise SettingsInvalid(
            f"--to {plan.to} is not a number of partitions: 1 to {PARTITIONS_MAX}"
        )
    if "topic.partitions" in {name.lower() for name in plan.into}:
        raise SettingsInvalid("--into topic.partitions repeats --to: leave it out")
    changed = {**plan.into, "topic.partitions": str(plan.to)}
    if plan.into_config is not None:
        source = Options(config=plan.into_config)
    return source.with_settings(changed)


def require_apart(source: Settings, target: Settings) -> None:
    """Raise SettingsInvalid if the new installation would be inside the old one."""
    for name, mine, its in (
        ("log", _log_place(source), _log_place(target)),
        ("store", _store_place(source), _store_place(target)),
    ):
        if mine == its:
            where = log_name(target) if name == "log" else store_name(target)
            setting = where.partition(" '")[0].removeprefix("the log of ")
            raise SettingsInvalid(
                f"source and target have the same {name}, {where}: name another one with --into"
                f" {setting}=…, as the source is never touched"
            )


def contents_of(spark: SparkSession, source: Options, quiescence: Quiescence) -> Contents:
    """Return the content of the old installation; outcomes only of commands that are read again."""
    state = quiescence.state
    tables = {name: rows_frame(spark, source, name) for name in COPIED[:3]}
    partitions = range(state.partition_count)
    tables[DEFINITIONS] = definitions_frame(spark, source, partitions)
    tables[OUTCOMES] = outcomes_frame(spark, source).where(_read_again(state))
    return Contents(
        identity=state.identity,
        tables=tables,
        log=log_frame(spark, source, state.spans),
        claims=state.claims,
        ends=state.ends,
        pauses=state.pauses,
        limits=state.limits,
        confirm=quiescence.require,
    )


def _read_again(state: QuiescentState) -> Column:
    wanted = f.lit(False)  # noqa: FBT003 - a column
    for partition, span in state.spans.items():
        if span.next < span.end:
            wanted |= (f.col("partition") == partition) & (f.col("log_offset") >= span.next)
    return wanted


def _log_place(settings: Settings) -> tuple[str, ...]:
    if settings.log == "kafka":
        return settings.kafka.bootstrap_servers, settings.topic.name
    return ("embedded", str(settings.embedded.folder.resolve()))


def _store_place(settings: Settings) -> tuple[str, ...]:
    if settings.store == "cassandra":
        cassandra = settings.cassandra
        return (*cassandra.contact_points, str(cassandra.port), cassandra.keyspace)
    return ("embedded", str(settings.embedded.folder.resolve()))


def _named(settings: Settings) -> dict[str, str]:
    return {"log": log_name(settings), "store": store_name(settings)}
