"""A CompletionTracker over a store whose writes and reads the test serves."""

from msgspec.structs import replace

from hourhand.actors.completion_tracker import CompletionTracker
from hourhand.actors.messages import (
    CheckTasks,
    RecordOutcomes,
    TasksChecked,
)
from hourhand.actors.model.execution.known_completions import KnownCompletions
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import (
    AttemptRecord,
    AttemptResult,
    Completion,
    CompletionResult,
)
from hourhand.actors.model.values.settings import TreeSettings, WindowSettings
from tests.builders import NOW_MS, a_completion, a_key, a_stored_task
from tests.unit.probes import PARTITION, Harness, Probe

KNOWN_MAX = 100

WRITES = ("insert_completions", "insert_attempts")

READS = ("find_completions", "find_attempts", "load_completions", "load_attempts")


class Bench:
    """A CompletionTracker over a store whose writes and reads the test serves."""

    def __init__(self, *, bound_ms: int = NOW_MS) -> None:
        window = WindowSettings(completions_max=KNOWN_MAX)
        self.harness = Harness(TreeSettings(window=window))
        self.requests = self.harness.requests
        self.ref = self.harness.spawn(
            CompletionTracker(
                self.harness.effects,
                self.harness.ownership,
                KnownCompletions(bound_ms, window.completions_max, 1_000_000),
            )
        )
        self.asker = Probe()

    def tell(self, message: object) -> None:
        """Let the role handle a message."""
        self.ref.tell(message)
        self.harness.run()

    def serve(self, kind: str) -> None:
        """Let the oldest held request take effect and be answered."""
        self.requests.take(kind)()
        self.harness.run()

    def close(self, key: TaskKey, result: CompletionResult = CompletionResult.SUCCESS) -> None:
        """Record a completion."""
        completion = a_completion(key=key, result=result, offset=5)
        self.tell(RecordOutcomes((completion,), (), self.asker))

    def is_closed(self, key: TaskKey, offset: int = 3) -> bool:
        """Ask, and expect the answer at once."""
        asker = self.check(key, offset)
        return asker.take(TasksChecked).checks[0][1]

    def check(self, key: TaskKey, offset: int = 3) -> Probe:
        """Ask; the answer is in the probe."""
        asker = Probe()
        task = replace(a_stored_task(offset=offset), key=key)
        self.tell(CheckTasks((task,), asker))
        return asker

    def store(self, *completions: Completion) -> None:
        """Put completions in the store, as an earlier owner left them."""
        stores = self.harness.effects.stores
        stores.status.insert_completions(PARTITION, completions, 1).result(timeout=0)


def key_of(number: int, due_in_ms: int = 0) -> TaskKey:
    """Return the key of a number, due that many milliseconds later."""
    return a_key(due_in_ms=due_in_ms + number, uniqueness_key=str(number))


def record_of(key: TaskKey, result: AttemptResult = AttemptResult.FAILURE) -> AttemptRecord:
    """Return the first attempt of a key."""
    finished = None if result is AttemptResult.STARTED else NOW_MS
    return AttemptRecord(key, 1, result, NOW_MS, finished, used=1)
