"""Opens the stores on one connection, after a check of the schema."""

from collections.abc import Callable
from typing import Any

from cassandra import DriverException, InvalidRequest, Unauthorized
from cassandra.cluster import NoHostAvailable

from hourhand.actors.model.values.errors import SchemaMissing, StoreUnavailable
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.cassandra.checkpoints import CassandraCheckpointStore
from hourhand.scheduler.adapters.cassandra.connection import named, open_connection, without_rights
from hourhand.scheduler.adapters.cassandra.definitions import CassandraDefinitionStore
from hourhand.scheduler.adapters.cassandra.migrate import migrate, schema_scripts
from hourhand.scheduler.adapters.cassandra.outcomes import CassandraOutcomeLog
from hourhand.scheduler.adapters.cassandra.oversight import (
    CassandraOversightStore,
    CassandraTallyStore,
)
from hourhand.scheduler.adapters.cassandra.ownership import CassandraOwnershipStore
from hourhand.scheduler.adapters.cassandra.results import CassandraResultStore
from hourhand.scheduler.adapters.cassandra.schedule import CassandraScheduleStore
from hourhand.scheduler.adapters.cassandra.session import CassandraSession
from hourhand.scheduler.adapters.cassandra.status import CassandraStatusStore
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.configuration.settings import CassandraSettings, Settings
from hourhand.scheduler.runtime.every_node import EveryNode


def connect(settings: CassandraSettings) -> CassandraSession:
    """Connect and check the schema.

    Raises StoreUnavailable if no node answers, SchemaMissing if keyspace or tables are missing or
    older than this version. A newer schema is accepted: nodes are updated one after another.
    """
    connection = open_connection(settings)
    try:
        _require_schema(connection.session, settings)
        return CassandraSession(connection, settings)
    except BaseException:
        connection.cluster.shutdown()
        raise


def open_stores(settings: Settings) -> Stores:
    """Open the stores on Cassandra.  Raises StoreUnavailable and SchemaMissing."""
    session = connect(settings.cassandra)
    retention_ms = settings.tree.watermark.completion_retention_ms
    try:
        oversight = CassandraOversightStore(session)
        ownership = CassandraOwnershipStore(session, retention_ms=retention_ms)
        return Stores(
            schedule=CassandraScheduleStore(session),
            status=CassandraStatusStore(session, _in_segments(settings.cassandra, oversight)),
            checkpoints=CassandraCheckpointStore(session),
            results=CassandraResultStore(session),
            outcome_log=CassandraOutcomeLog(session),
            ownership=ownership,
            definitions=CassandraDefinitionStore(session),
            oversight=oversight,
            tallies=CassandraTallyStore(session),
            close=session.close,
            installation_id=ownership.installation_id,
        )
    except BaseException:
        session.close()
        raise


def bring_up_to_date(settings: Settings) -> list[str]:
    """Apply missing files of the schema; if segments are off, turn existing ones into rows.

    Returns the changes, one line each. Raises as ``migrate``, and InstallationBusy if nodes write
    further segments meanwhile. Safe to repeat, and beside nodes.
    """
    done = migrate(settings)
    if settings.cassandra.completion_segments == "off":
        session = connect(settings.cassandra)
        try:
            turned = CassandraStatusStore(session).turn_segments_into_rows()
        finally:
            session.close()
        done.append(f"the store holds no completion segments: {turned} became rows")
    return done


def _in_segments(
    settings: CassandraSettings, oversight: CassandraOversightStore
) -> Callable[[], bool]:
    """Return a function that returns True if segments may be written now."""
    if settings.completion_segments == "auto":
        what = "successes are written as segments"
        return EveryNode(oversight.all_read_segments, SystemClock().monotonic_ms, what)
    chosen = settings.completion_segments == "on"
    return lambda: chosen


def _require_schema(session: Any, settings: CassandraSettings) -> None:
    keyspace, advice = settings.keyspace, "run 'hourhand migrate'"
    try:
        if not session.execute(
            "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = %s",
            (keyspace,),
        ).one():
            raise SchemaMissing(f"Cassandra has no keyspace {keyspace!r}: {advice}")
        applied = {row[0] for row in session.execute(f"SELECT name FROM {keyspace}.schedule_meta")}
    except InvalidRequest:
        raise SchemaMissing(
            f"keyspace {keyspace!r} holds no schema of Hourhand: {advice}"
        ) from None
    except Unauthorized as error:
        raise without_rights(settings, error, "SELECT and MODIFY there") from None
    except (DriverException, NoHostAvailable) as error:
        raise StoreUnavailable(
            f"Cassandra at {named(settings)} answers but cannot be read"
            f" ({type(error).__name__}: {error}): check its nodes and cassandra.consistency"
        ) from error
    missing = [each.name for each in schema_scripts() if each.meta_name not in applied]
    if missing:
        raise SchemaMissing(
            f"keyspace {keyspace!r} is older than this version and lacks {', '.join(missing)}:"
            f" {advice}"
        )
