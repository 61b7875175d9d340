"""Opens the stores of a folder, beside other processes that have it open.

Only the log takes the folder's lock; the lock and the owner epoch of each write decide which node
may write.
"""

from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.embedded.checkpoints import EmbeddedCheckpoints
from hourhand.scheduler.adapters.embedded.connection import version_of
from hourhand.scheduler.adapters.embedded.database import Database
from hourhand.scheduler.adapters.embedded.definitions import EmbeddedDefinitions
from hourhand.scheduler.adapters.embedded.folder import store_file
from hourhand.scheduler.adapters.embedded.outcomes import EmbeddedOutcomes
from hourhand.scheduler.adapters.embedded.oversight import EmbeddedOversight, EmbeddedTallies
from hourhand.scheduler.adapters.embedded.ownership import EmbeddedOwnership
from hourhand.scheduler.adapters.embedded.pair import check_pair
from hourhand.scheduler.adapters.embedded.results import EmbeddedResults
from hourhand.scheduler.adapters.embedded.schedule import EmbeddedSchedule
from hourhand.scheduler.adapters.embedded.schema import STORE
from hourhand.scheduler.adapters.embedded.segments import turn_into_rows
from hourhand.scheduler.adapters.embedded.status import EmbeddedStatus
from hourhand.scheduler.configuration.settings import Settings

_READERS = 2
"""Number of reading threads: a long scan leaves one to short reads."""


def open_stores(settings: Settings) -> Stores:
    """Open the stores of ``settings.embedded.folder``; create missing ones.

    Raises StoreUnavailable if the file cannot be used, FolderDamaged if its content is not what was
    written, SchemaMissing if a newer version of Hourhand wrote it. With
    ``embedded.completion_segments`` off it turns segments into rows first.
    """
    check_pair(settings)
    database = Database(store_file(settings.embedded.folder), readers=_READERS)
    in_segments = settings.embedded.completion_segments
    if not in_segments:
        try:
            _turn_segments_into_rows(database)
        except BaseException:
            database.close()
            raise
    ownership, outcomes = EmbeddedOwnership(database), EmbeddedOutcomes(database)
    return Stores(
        schedule=EmbeddedSchedule(database),
        status=EmbeddedStatus(database, in_segments=in_segments),
        checkpoints=EmbeddedCheckpoints(database),
        results=EmbeddedResults(database),
        outcome_log=outcomes,
        ownership=ownership,
        definitions=EmbeddedDefinitions(database),
        oversight=EmbeddedOversight(database),
        tallies=EmbeddedTallies(database),
        close=database.close,
        installation_id=ownership.installation_id,
        kept_outcomes=outcomes,
    )


def bring_up_to_date(settings: Settings) -> list[str]:
    """Turn segments into rows if segments are off; return the changes, one line each."""
    if settings.embedded.completion_segments:
        return ["the embedded store makes its tables itself: nothing to do"]
    open_stores(settings).close()
    return ["the embedded store holds no completion segments: their entries are rows"]


def _turn_segments_into_rows(database: Database) -> None:
    if database.read(version_of).result() == STORE.version_max:
        database.write_in_steps(turn_into_rows, None).result()
