"""What hypothesis invents tasks, keys and instants from."""

from hypothesis import strategies as st
from pydantic import JsonValue

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.task.task import AttemptState, StoredTask
from hourhand.actors.model.values.instant import INSTANT_MAX_MS, INSTANT_MIN_MS

instants_ms = st.integers(INSTANT_MIN_MS, INSTANT_MAX_MS)
"""Every millisecond of the years 1 to 9999."""

any_text = st.text(st.characters(exclude_categories=()))
"""Every Python string, lone surrogates included."""

storable_text = st.text(st.characters(codec="utf-8"), max_size=50)
"""Every string that UTF-8 can hold."""

ordering_ids = storable_text.filter(bool)

keys = st.builds(TaskKey, instants_ms, ordering_ids, storable_text)

json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | storable_text,
    lambda children: (
        st.lists(children, max_size=4) | st.dictionaries(storable_text, children, max_size=4)
    ),
    max_leaves=12,
)

json_objects: st.SearchStrategy[dict[str, JsonValue]] = st.dictionaries(
    storable_text, json_values, max_size=4
)

offsets = st.integers(0, 2**40)

attempt_states = st.builds(
    AttemptState,
    used=st.integers(0, 200),
    last=st.integers(0, 200),
    next_attempt_ms=st.integers(0, INSTANT_MAX_MS),
    suspect=st.booleans(),
)

completions = st.builds(
    Completion,
    key=keys,
    result=st.sampled_from(CompletionResult),
    offset=offsets,
    for_good=st.booleans(),
)


def stored_tasks(key: TaskKey) -> st.SearchStrategy[StoredTask]:
    """Rows of one key, as different records and loads may have made them."""
    return st.builds(
        StoredTask,
        key=st.just(key),
        body=json_objects.map(lambda data: str(len(data)).encode()),
        offset=offsets,
        attempts=attempt_states,
        overdue_when_loaded=st.booleans(),
    )
