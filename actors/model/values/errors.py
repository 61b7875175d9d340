"""Every error Hourhand raises on purpose, sorted by whose fault it is.

::

    HourhandError
    ├── CallerError                   the caller passed something that cannot be done
    │   ├── InvalidTask               a task or a command that breaks the format
    │   │   └── PayloadInvalid        data that does not fit the type of its function
    │   ├── TaskTooLarge              a record above the size the log accepts
    │   ├── TaskInThePast             older than the grace window
    │   ├── InvalidKey                text that is not a task key
    │   ├── TaskNotFound              no open task has both ids, or nothing is stored any more
    │   ├── SeveralTasks              more than one open task has both ids
    │   ├── InvalidInput              a file that holds no tasks, or a folder in use
    │   ├── SparkNotStarted           no Java 17, another Python, or a user without a name
    │   ├── InvalidExecutor           nothing that could run a task at the path given
    │   ├── NotConnected              scheduled through a registry without an open client
    │   ├── InvalidCheckpoint         a checkpoint that is not JSON, or too large
    │   ├── InvalidResult             a result that is not JSON, or too large
    │   ├── NoResult                  a task that ended without one
    │   │   └── ResultGone            one whose time is over
    │   ├── NoSuchSchedule            a recurring schedule that is not there
    │   ├── InvalidQuery              a question in SQL that cannot be answered
    │   ├── UnknownConnection         no connection of a database that an outbox could be in
    │   ├── AlreadyStarted            started a second time
    │   ├── SnoozesUsedUp             an attempt that asked for more snoozes than it may have
    │   └── ProcessDied               an attempt whose process ended, as by a signal
    │       └── ProcessTooLarge       an attempt whose process held too much memory
    ├── OperatorError                 something is wrong with the installation
    │   ├── SettingsInvalid           a setting out of its range, or unknown
    │   ├── DependencyMissing         a package of an extra is not installed
    │   ├── LogUnavailable            the broker does not answer
    │   ├── TopicMissing              the topic is not there
    │   ├── StoreUnavailable          the store does not answer
    │   ├── OutboxUnavailable         the database with the outbox does not answer
    │   ├── SchemaMissing             keyspace or tables are missing or too old
    │   ├── PartitionCountChanged     the topic has another number of partitions
    │   ├── GroupShared               the group's other nodes work for another store
    │   ├── FolderLocked              another node holds the embedded folder
    │   ├── InstallationBusy          nodes run, or records arrive, where both must rest
    │   ├── NodeUnhealthy             a node that cannot do its work, asked for its health
    │   ├── FolderDamaged             a file of the embedded folder lost or changed what it held
    │   ├── NodeStopped               the node or client was closed meanwhile
    │   ├── UsedAfterFork             opened before the process was forked
    │   ├── CannotRunHere             a task that another node may be able to run
    │   │   ├── UnknownKind           of a kind that this node has no executor for
    │   │   └── PayloadSealed         with data that this process has no codec or key for
    │   ├── PayloadDamaged            sealed data that was changed, or is another task's
    │   │   └── PayloadUnsealed       data that is plain where sealed data is required
    │   ├── PayloadUnavailable        a payload codec could not do its work
    │   └── SparkFailed               a job of the pipeline that Spark could not run
    └── InternalError                 a bug, or state only a rebuild can mend
        ├── PoisonRecord              a record that cannot be decoded (dead-lettered)
        └── OwnershipLost             a newer owner of the partition exists

Each class has a stable ``code`` that logs, the command line and the documents share.
The message says what was wrong with which value, and what to do next.
"""

from typing import ClassVar

from hourhand.actors.model.values.public import public

_PUBLIC = public("hourhand.errors")


@_PUBLIC
class HourhandError(Exception):
    """Base of all errors raised on purpose; never raised itself."""

    code: ClassVar[str] = "hourhand"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__ == __name__:
            _PUBLIC(cls)


class CallerError(HourhandError):
    """The caller asked for something that cannot be done; asking again changes nothing."""

    code = "caller"


class InvalidTask(CallerError, ValueError):
    """The format is broken: naive time, empty ordering id, data not JSON."""

    code = "invalid-task"


class PayloadInvalid(InvalidTask):
    """The data does not fit the payload type of its function; the message names the field."""

    code = "payload-invalid"


class TaskTooLarge(CallerError, ValueError):
    """The encoded record is larger than the log accepts."""

    code = "task-too-large"


class TaskInThePast(CallerError, ValueError):
    """The scheduled time is further in the past than the grace window."""

    code = "task-in-the-past"


class InvalidKey(CallerError, ValueError):
    """The text is not the text form of a task key."""

    code = "invalid-key"


class TaskNotFound(CallerError, ValueError):
    """No open task has the given ids, or nothing is stored of a task any more."""

    code = "task-not-found"


class SeveralTasks(CallerError, ValueError):
    """More than one open task has the given ids: name one by its key."""

    code = "several-tasks"


class InvalidInput(CallerError, ValueError):
    """A file or folder for a job is missing, in use, or holds something else."""

    code = "invalid-input"


class SparkNotStarted(CallerError):
    """Spark cannot start here: no Java 17, another Python, a user without a name."""

    code = "spark-not-started"


class InvalidExecutor(CallerError, ValueError):
    """The executor cannot be imported, or could not run a task."""

    code = "invalid-executor"


class NotConnected(CallerError, RuntimeError):
    """A task was scheduled through a registry without an open client."""

    code = "not-connected"


class InvalidCheckpoint(CallerError, ValueError):
    """A checkpoint is not JSON, is too large, or names no task of its batch."""

    code = "invalid-checkpoint"


class InvalidResult(CallerError, ValueError):
    """The value of ``Done`` is not JSON, or is too large."""

    code = "invalid-result"


class NoResult(CallerError, RuntimeError):
    """The task failed for good, expired, was dropped or cancelled, so it has no result."""

    code = "no-result"


class ResultGone(NoResult):
    """The task ended well, and its result is no longer kept."""

    code = "result-gone"


class SnoozesUsedUp(CallerError, RuntimeError):
    """An attempt returned ``Snooze`` once more than ``times_max``, so it has failed."""

    code = "snoozes-used-up"


class NoSuchSchedule(CallerError, ValueError):
    """No recurring schedule has this name, or no node has it yet."""

    code = "no-such-schedule"


class InvalidQuery(CallerError, ValueError):
    """The SQL is wrong, names what is not there, or would change something."""

    code = "invalid-query"


class UnknownConnection(CallerError, TypeError):
    """The outbox cannot write to this kind of connection."""

    code = "unknown-connection"


class AlreadyStarted(CallerError, RuntimeError):
    """A scheduler was started a second time."""

    code = "already-started"


class ProcessDied(CallerError, RuntimeError):
    """The process of an attempt ended, by a signal or ``os._exit``."""

    code = "process-died"


class ProcessTooLarge(ProcessDied):
    """The process of an attempt held too much memory, and was killed."""

    code = "process-too-large"


class OperatorError(HourhandError):
    """Something is wrong with the installation; the message says what to change."""

    code = "operator"


class SettingsInvalid(OperatorError, ValueError):
    """A setting is unknown, has the wrong type, or lies outside its range."""

    code = "settings-invalid"


class DependencyMissing(OperatorError):
    """A package is not installed; the message has pip's line."""

    code = "dependency-missing"


class LogUnavailable(OperatorError):
    """No broker answered within the time allowed."""

    code = "log-unavailable"


class TopicMissing(OperatorError):
    """The topic does not exist on the broker."""

    code = "topic-missing"


class StoreUnavailable(OperatorError):
    """The store did not answer, or answered with a failure that may pass."""

    code = "store-unavailable"


class OutboxUnavailable(OperatorError):
    """The database of the outbox did not answer or failed for a while."""

    code = "outbox-unavailable"


class SchemaMissing(OperatorError):
    """Keyspace or tables are missing or older than this version needs."""

    code = "schema-missing"


class PartitionCountChanged(OperatorError):
    """The topic's number of partitions differs from the store's."""

    code = "partition-count-changed"


class GroupShared(OperatorError):
    """The group's offsets were committed for another store."""

    code = "group-shared"


class FolderLocked(OperatorError):
    """Another node holds the lock of the embedded folder."""

    code = "folder-locked"


class InstallationBusy(OperatorError):
    """Nodes run, or records still arrive, while a job needs both to rest."""

    code = "installation-busy"


class NodeUnhealthy(OperatorError):
    """A node cannot do its work, or does not answer."""

    code = "node-unhealthy"


class FolderDamaged(OperatorError):
    """A file of the embedded folder is damaged: restore the folder from a backup."""

    code = "folder-damaged"


class NodeStopped(OperatorError):
    """The node or client was closed before the request could be answered."""

    code = "node-stopped"


class UsedAfterFork(OperatorError):
    """A client, node or file was opened before this process was forked: open it afterwards."""

    code = "used-after-fork"


class CannotRunHere(OperatorError):
    """This node cannot run a task, and another one may: it is held, and uses up no attempt."""

    code = "cannot-run-here"


class UnknownKind(CannotRunHere):
    """This node has no executor for the task's kind."""

    code = "unknown-kind"


class PayloadSealed(CannotRunHere):
    """This process has no codec or key for the data."""

    code = "payload-sealed"


class PayloadDamaged(OperatorError):
    """Sealed data was changed, or sealed for another task."""

    code = "payload-damaged"


class PayloadUnsealed(PayloadDamaged):
    """A task's data is plain, and codecs here require sealed data."""

    code = "payload-unsealed"


class PayloadUnavailable(OperatorError):
    """A payload codec failed to seal data, so nothing was scheduled."""

    code = "payload-unavailable"


class SparkFailed(OperatorError):
    """Spark could not run a job: its master, its memory, or a file it needs."""

    code = "spark-failed"


class InternalError(HourhandError):
    """An error that is not the user's fault: the node handles it, or it is a bug worth
    reporting.
    """

    code = "internal"


class PoisonRecord(InternalError, ValueError):
    """A record cannot be decoded or can never be stored."""

    code = "poison-record"


class OwnershipLost(InternalError):
    """The store holds a newer owner epoch of this partition."""

    code = "ownership-lost"

    def __init__(self, partition: int, epoch: int) -> None:
        super().__init__(
            f"partition {partition} has an owner newer than epoch {epoch};"
            " this node gives it up until it is assigned again"
        )
        self.partition = partition
        self.epoch = epoch

    def __reduce__(self) -> tuple[type["OwnershipLost"], tuple[int, int]]:
        return type(self), (self.partition, self.epoch)


def may_pass(error: BaseException) -> bool:
    """True if the same request may succeed later: the installation failed, not the request.

    All other errors, including unknown ones, are refusals that a retry does not change.
    """
    return isinstance(error, OperatorError)
