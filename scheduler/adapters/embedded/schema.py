"""The schema of the folder's two files, as statements to run once, in order.

A file's ``user_version`` is the number of scripts that were applied to it; a new version of
Hourhand appends a script and never changes one. While a file holds data that an earlier version
would miss, its number is one higher.

Times are UTC milliseconds. A ``checksum`` covers its row (``seal``); rows of version 1, outcomes of
version 4 and dead letters of earlier versions have none. ``pair`` holds the numbers that ``pair``
compares.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Schema:
    """One kind of file."""

    application_id: int
    """Written into the file, so that a file of another program is recognised."""
    scripts: tuple[tuple[str, ...], ...]
    """Statements of version 1, of version 2, …"""
    unversioned: tuple[str, ...] = ()
    """Repeatable statements for tables that an earlier version does not miss while they are
    empty."""
    overlooked: tuple[str, ...] = ()
    """Repeatable statements for tables that an earlier version never misses."""
    tally: str = ""
    """The statement that counts transactions; it is the last one of each."""

    @property
    def version(self) -> int:
        """The version of a file that earlier versions may open if they know all scripts."""
        return len(self.scripts)

    @property
    def version_max(self) -> int:
        """The version of a file whose unversioned tables hold rows."""
        return self.version + bool(self.unversioned)


# A record's id is ``partition << 48 | offset``: it is the row id itself, so a partition's records
# are stored together, in order, without an index.
LOG = Schema(
    application_id=0x48484C47,
    scripts=(
        (
            """CREATE TABLE record (
                id INTEGER PRIMARY KEY,
                timestamp_ms INTEGER NOT NULL,
                key BLOB, value BLOB, headers BLOB)""",
            # The end outlives the records, so offsets are never given out twice.
            """CREATE TABLE log_end (
                partition INTEGER PRIMARY KEY, next_offset INTEGER NOT NULL)""",
            """CREATE TABLE committed (
                partition INTEGER PRIMARY KEY, next_offset INTEGER NOT NULL)""",
            """CREATE TABLE dead_letter (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                timestamp_ms INTEGER NOT NULL,
                key BLOB, value BLOB, headers BLOB)""",
            "CREATE TABLE topic (partition_count INTEGER NOT NULL)",
        ),
        (
            "ALTER TABLE record ADD COLUMN checksum INTEGER",
            "ALTER TABLE committed ADD COLUMN checksum INTEGER",
            # The store that this log belongs to, and its count when offsets were committed.
            "CREATE TABLE pair (identity INTEGER, store_tally INTEGER NOT NULL)",
            "INSERT INTO pair VALUES (NULL, 0)",
        ),
    ),
    overlooked=(
        # Checksums of dead letters: earlier versions write letters without one, and read these.
        """CREATE TABLE IF NOT EXISTS letter_checksum (
            id INTEGER PRIMARY KEY, checksum INTEGER NOT NULL)""",
    ),
)

_KEY = """partition INTEGER NOT NULL, scheduled_ms INTEGER NOT NULL,
    ordering_id TEXT NOT NULL, uniqueness_key TEXT NOT NULL"""

STORE = Schema(
    application_id=0x48485354,
    scripts=(
        (
            f"""CREATE TABLE task_schedule ({_KEY},
                data BLOB NOT NULL, record_offset INTEGER NOT NULL,
                write_time INTEGER NOT NULL,
                PRIMARY KEY (partition, scheduled_ms, ordering_id, uniqueness_key)
                ) WITHOUT ROWID""",
            f"""CREATE TABLE task_status ({_KEY},
                result TEXT NOT NULL, record_offset INTEGER NOT NULL,
                attempts INTEGER NOT NULL, started_ms INTEGER, finished_ms INTEGER NOT NULL,
                moved_to_ms INTEGER, for_good INTEGER NOT NULL, reason TEXT,
                write_time INTEGER NOT NULL,
                PRIMARY KEY (partition, scheduled_ms, ordering_id, uniqueness_key)
                ) WITHOUT ROWID""",
            f"""CREATE TABLE attempt_history ({_KEY},
                attempt INTEGER NOT NULL, result TEXT NOT NULL, started_ms INTEGER NOT NULL,
                finished_ms INTEGER, next_attempt_ms INTEGER, used INTEGER NOT NULL,
                suspect INTEGER NOT NULL, error_class TEXT, error_message TEXT,
                error_stack TEXT, fence INTEGER NOT NULL, write_time INTEGER NOT NULL,
                PRIMARY KEY (partition, scheduled_ms, ordering_id, uniqueness_key, attempt)
                ) WITHOUT ROWID""",
            # Traces of whole-hour deletes, so that a later write below their write time stays
            # deleted.
            """CREATE TABLE tombstone (
                kind TEXT NOT NULL, partition INTEGER NOT NULL,
                end_ms INTEGER NOT NULL, first_ms INTEGER NOT NULL,
                write_time INTEGER NOT NULL,
                PRIMARY KEY (kind, partition, end_ms, first_ms)) WITHOUT ROWID""",
            """CREATE TABLE partition_watermark (
                partition INTEGER PRIMARY KEY, epoch INTEGER NOT NULL,
                watermark_ms INTEGER NOT NULL, loaded_until_ms INTEGER NOT NULL,
                next_offset INTEGER, stragglers BLOB NOT NULL,
                tasks_swept_until_ms INTEGER NOT NULL,
                statuses_swept_until_ms INTEGER NOT NULL,
                statuses_due_until_ms INTEGER NOT NULL,
                statuses_due_at_ms INTEGER NOT NULL,
                write_time INTEGER NOT NULL)""",
            """CREATE TABLE command_outcome (
                partition INTEGER NOT NULL, record_offset INTEGER NOT NULL,
                outcome TEXT NOT NULL,
                scheduled_ms INTEGER NOT NULL, ordering_id TEXT NOT NULL,
                uniqueness_key TEXT NOT NULL,
                new_scheduled_ms INTEGER, new_ordering_id TEXT, new_uniqueness_key TEXT,
                write_time INTEGER NOT NULL,
                PRIMARY KEY (partition, record_offset)) WITHOUT ROWID""",
            "CREATE INDEX command_outcome_by_time ON command_outcome (partition, scheduled_ms)",
            "CREATE TABLE schedule_meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL)",
        ),
        (
            "ALTER TABLE task_schedule ADD COLUMN checksum INTEGER",
            "ALTER TABLE task_status ADD COLUMN checksum INTEGER",
            "ALTER TABLE attempt_history ADD COLUMN checksum INTEGER",
            "ALTER TABLE partition_watermark ADD COLUMN checksum INTEGER",
            "ALTER TABLE command_outcome ADD COLUMN checksum INTEGER",
            "CREATE TABLE pair (identity INTEGER, tally INTEGER NOT NULL)",
            "INSERT INTO pair VALUES (NULL, 0)",
        ),
        (
            """CREATE TABLE definition (
                partition INTEGER NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL,
                record_offset INTEGER NOT NULL, rule BLOB NOT NULL,
                next_ms INTEGER, expires_ms INTEGER,
                write_time INTEGER NOT NULL, checksum INTEGER,
                PRIMARY KEY (partition, kind, id)) WITHOUT ROWID""",
            """CREATE INDEX definition_by_expiry ON definition (partition, expires_ms)
                WHERE expires_ms IS NOT NULL""",
        ),
        (
            """CREATE TABLE node_report (
                node TEXT PRIMARY KEY, reported_ms INTEGER NOT NULL, body BLOB NOT NULL,
                write_time INTEGER NOT NULL, checksum INTEGER) WITHOUT ROWID""",
            """CREATE TABLE pause_sheet (
                name TEXT PRIMARY KEY, body BLOB NOT NULL,
                write_time INTEGER NOT NULL, checksum INTEGER) WITHOUT ROWID""",
            """CREATE TABLE audit_log (
                at_ms INTEGER NOT NULL, id TEXT NOT NULL, who TEXT NOT NULL,
                action TEXT NOT NULL, target TEXT NOT NULL, detail BLOB NOT NULL,
                result TEXT NOT NULL, kept_until_ms INTEGER NOT NULL,
                write_time INTEGER NOT NULL, checksum INTEGER,
                PRIMARY KEY (at_ms, id)) WITHOUT ROWID""",
            """CREATE TABLE hour_tally (
                partition INTEGER NOT NULL, hour_ms INTEGER NOT NULL,
                body BLOB NOT NULL, counted_offset INTEGER NOT NULL,
                write_time INTEGER NOT NULL, checksum INTEGER,
                PRIMARY KEY (partition, hour_ms)) WITHOUT ROWID""",
        ),
        (
            "ALTER TABLE command_outcome ADD COLUMN moved_data BLOB",
            # The old checksums cover the previous columns.
            "UPDATE command_outcome SET checksum = NULL",
        ),
    ),
    unversioned=(
        """CREATE TABLE IF NOT EXISTS completion_segment (
            id INTEGER PRIMARY KEY,
            partition INTEGER NOT NULL, hour_ms INTEGER NOT NULL,
            first_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL,
            body BLOB NOT NULL, write_time INTEGER NOT NULL, checksum INTEGER)""",
        """CREATE INDEX IF NOT EXISTS completion_segment_by_time
            ON completion_segment (partition, hour_ms, last_ms, first_ms, write_time)""",
    ),
    overlooked=(
        # A version before neither makes checkpoints nor gives tasks those that there are.
        f"""CREATE TABLE IF NOT EXISTS task_checkpoint ({_KEY},
            attempt INTEGER NOT NULL, made_ms INTEGER NOT NULL, body BLOB NOT NULL,
            fence INTEGER NOT NULL, write_time INTEGER NOT NULL, checksum INTEGER,
            PRIMARY KEY (partition, scheduled_ms, ordering_id, uniqueness_key)
            ) WITHOUT ROWID""",
        # A version before takes a task with a result for one without, and ends its own so.
        f"""CREATE TABLE IF NOT EXISTS task_result ({_KEY},
            attempt INTEGER NOT NULL, finished_ms INTEGER NOT NULL,
            kept_until_ms INTEGER NOT NULL, body BLOB NOT NULL,
            fence INTEGER NOT NULL, write_time INTEGER NOT NULL, checksum INTEGER,
            PRIMARY KEY (partition, scheduled_ms, ordering_id, uniqueness_key)
            ) WITHOUT ROWID""",
        # It finds the bodies to be forgotten.
        """CREATE INDEX IF NOT EXISTS task_result_by_time
            ON task_result (kept_until_ms) WHERE body <> x''""",
        # A version before tells of no outcomes, and leaves those that there are to a later one.
        """CREATE TABLE IF NOT EXISTS outcome_log (
            partition INTEGER NOT NULL, number INTEGER NOT NULL, piece INTEGER NOT NULL,
            body BLOB NOT NULL, write_time INTEGER NOT NULL, checksum INTEGER,
            PRIMARY KEY (partition, number, piece)) WITHOUT ROWID""",
        """CREATE TABLE IF NOT EXISTS outcome_kept (
            position INTEGER PRIMARY KEY AUTOINCREMENT, told_ms INTEGER NOT NULL,
            value BLOB NOT NULL, checksum INTEGER)""",
    ),
    tally="UPDATE pair SET tally = tally + 1",
)
