"""A key's text form survives every string, and keys sort as promise P4 says."""

from hypothesis import example, given
from hypothesis import strategies as st

from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.values.errors import InvalidKey
from tests.property.strategies import any_text, instants_ms, keys, storable_text

without_comma = storable_text.filter(lambda text: "," not in text)


@given(instants_ms, any_text.filter(bool), any_text)
@example(0, ",", "%2C")
@example(0, "TaskKey(a", "b)")
@example(0, "\ud800\udc00", "\udfff")
@example(0, "a b/c?d#e", "\x00\n")
def test_the_text_form_is_reversible_for_every_string(
    time_ms: int, ordering_id: str, uniqueness_key: str
) -> None:
    """Parsing the text of a key gives the same key."""
    key = TaskKey(time_ms, ordering_id, uniqueness_key)

    assert TaskKey.parse(str(key)) == key


@given(instants_ms, any_text, any_text)
def test_the_text_form_needs_no_quoting(
    time_ms: int, ordering_id: str, uniqueness_key: str
) -> None:
    """Only unreserved characters of a URL, ``%``, ``:`` and the two commas occur."""
    text = str(TaskKey(time_ms, ordering_id, uniqueness_key))

    assert text.isascii()
    assert all(letter.isalnum() or letter in "-._~%:," for letter in text)
    assert text.count(",") == 2


@given(keys, keys)
def test_two_keys_never_share_a_text(one: TaskKey, other: TaskKey) -> None:
    """Texts are equal exactly where keys are."""
    assert (str(one) == str(other)) == (one == other)


@given(instants_ms, without_comma.filter(bool), without_comma)
def test_the_legacy_form_is_read_where_it_is_unambiguous(
    time_ms: int, ordering_id: str, uniqueness_key: str
) -> None:
    """PagerDuty's form is taken as it stands, nothing of it is decoded."""
    key = TaskKey(time_ms, ordering_id, uniqueness_key)
    time = str(key).partition(",")[0]

    assert TaskKey.parse(f"TaskKey({time},{ordering_id},{uniqueness_key})") == key


@given(any_text)
def test_any_other_text_is_refused_with_invalid_key(text: str) -> None:
    """No text raises anything but InvalidKey."""
    try:
        key = TaskKey.parse(text)
    except InvalidKey as error:
        assert "is not a task key" in str(error)  # noqa: PT017 - either is right
    else:
        assert TaskKey.parse(str(key)) == key


@given(st.lists(keys, max_size=6))
def test_keys_sort_by_time_then_utf8_of_the_ids(some: list[TaskKey]) -> None:
    """The order of Python strings is that of their UTF-8 bytes, as the stores sort."""

    def as_stored(key: TaskKey) -> tuple[int, bytes, bytes]:
        return key.scheduled_ms, key.ordering_id.encode(), key.uniqueness_key.encode()

    assert sorted(some) == sorted(some, key=as_stored)


@given(keys)
def test_the_first_key_of_a_millisecond_is_below_every_key_of_it(key: TaskKey) -> None:
    """A range that begins there misses no task of the millisecond."""
    assert first_key_at(key.scheduled_ms) < key < first_key_at(key.scheduled_ms + 1)
