"""The meaning of the driver's errors: temporary, or a refusal that needs an action.

It decides which errors are retried, and the messages for the others.
"""

from cassandra import (
    CDCWriteFailure,
    CoordinationFailure,
    InvalidRequest,
    OperationTimedOut,
    Timeout,
    Unauthorized,
    Unavailable,
)
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionBusy, ConnectionException
from cassandra.protocol import (
    ErrorMessage,
    IsBootstrappingErrorMessage,
    OverloadedErrorMessage,
    ServerError,
    TruncateError,
)

from hourhand.actors.model.values.errors import SchemaMissing, StoreUnavailable
from hourhand.scheduler.adapters.cassandra.connection import named, without_rights
from hourhand.scheduler.configuration.settings import CassandraSettings

PASSING = (
    CDCWriteFailure,
    ConnectionBusy,
    ConnectionException,
    CoordinationFailure,
    # Errors without a class of the driver, such as a lightweight transaction of unknown result.
    ErrorMessage,
    IsBootstrappingErrorMessage,
    NoHostAvailable,
    OperationTimedOut,
    OverloadedErrorMessage,
    ServerError,
    Timeout,
    TruncateError,
    Unavailable,
)
"""Errors after which the same statement may succeed."""
REFUSALS = (InvalidRequest, Unauthorized)
"""Errors by which a server refuses a statement, now and later."""


def unavailable(settings: CassandraSettings, error: Exception) -> StoreUnavailable:
    """Return the error for a temporary failure that lasted too long."""
    return StoreUnavailable(
        f"Cassandra at {named(settings)} failed a request"
        f" ({type(error).__name__}: {error}): check the state of its nodes, its load and"
        f" cassandra.consistency, which is {settings.consistency}"
    )


def refused(settings: CassandraSettings, error: Exception) -> Exception:
    """Return the error for a refusal: ``error`` itself if nothing can be added."""
    if isinstance(error, Unauthorized):
        return without_rights(settings, error, "SELECT and MODIFY there")
    text = str(error).lower()
    if any(each in text for each in ("does not exist", "unconfigured table", "undefined")):
        return SchemaMissing(
            f"keyspace {settings.keyspace!r} lacks what this version needs ({error}):"
            " run 'hourhand migrate'"
        )
    return error
