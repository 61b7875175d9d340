"""The text forms of a key, by example."""

import pytest

from hourhand.actors.model.task.key import TaskKey, TaskPair, first_key_at, parse_name
from hourhand.actors.model.values.errors import InvalidKey
from tests.builders import NOW, NOW_MS, a_key


def test_the_text_form_by_example() -> None:
    """Time, ordering id, uniqueness key; commas and slashes inside are encoded."""
    key = TaskKey(NOW_MS, "customer/7", "a,b")

    assert str(key) == "2026-02-09T01:41:12.959Z,customer%2F7,a%2Cb"
    assert TaskKey.parse(str(key)) == key


def test_every_id_that_python_can_hold_has_a_text_form() -> None:
    """A lone surrogate too, and what a URL's path gives a meaning."""
    key = TaskKey(NOW_MS, "a/?#X ", "\ud800")

    assert str(key) == "2026-02-09T01:41:12.959Z,a%2F%3F%23X%20,%ED%A0%80"
    assert TaskKey.parse(str(key)) == key


def test_the_first_key_of_a_millisecond_is_before_every_other() -> None:
    """Of that millisecond, whatever its ids are."""
    assert first_key_at(NOW_MS) == TaskKey(NOW_MS, "", "")


def test_the_time_of_a_key_is_told_in_utc() -> None:
    """The property gives what the user scheduled."""
    assert a_key(due_in_ms=0).scheduled_time == NOW


def test_an_empty_uniqueness_key_keeps_its_place() -> None:
    """Two commas are always there."""
    assert str(TaskKey(NOW_MS, "a", "")) == "2026-02-09T01:41:12.959Z,a,"
    assert TaskKey.parse("2026-02-09T01:41:12.959Z,a,") == TaskKey(NOW_MS, "a", "")


@pytest.mark.parametrize(
    "text", ["2026-02-09T01:41:12.959Z,,b", "TaskKey(2026-02-09T01:41:12.959Z,,b)"]
)
def test_an_empty_ordering_id_is_refused(text: str) -> None:
    """No task has one, so the text was put together wrong."""
    with pytest.raises(InvalidKey, match="the ordering id is empty"):
        TaskKey.parse(text)


def test_the_legacy_form_is_read_as_it_stands() -> None:
    """Nothing of it is encoded, so a per cent sign is one."""
    key = TaskKey.parse("TaskKey(2026-02-09T01:41:12.959Z,customer (7),100%2C)")

    assert key == TaskKey(NOW_MS, "customer (7)", "100%2C")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected <instant>,<ordering id>,<uniqueness key>"),
        ("2026-02-09T01:41:12.959Z,a", "expected <instant>"),
        ("2026-02-09T01:41:12.959Z,a,b,c", "written as %2C"),
        ("TaskKey(2026-02-09T01:41:12.959Z,a,b,c)", "expected <instant>"),
        ("2026-02-09T01:41:12.959,a,b", "is not an RFC 3339 instant with a time zone"),
        ("tomorrow,a,b", "'tomorrow' is not an RFC 3339 instant"),
        ("2026-02-09T01:41:12.959Z,%FF,b", "can't decode byte 0xff"),
    ],
)
def test_other_text_is_refused_with_the_reason(text: str, why: str) -> None:
    """The error shows the text and what was expected."""
    with pytest.raises(InvalidKey) as caught:
        TaskKey.parse(text)

    assert repr(text) in str(caught.value)
    assert why in str(caught.value)


@pytest.mark.parametrize("pair", [("a", "b"), ("a", ""), ("a,b", "c%,"), ("ü 🐈", "\n")])
def test_a_pair_has_a_text_form_that_is_read_back(pair: tuple[str, str]) -> None:
    """It is that of a key without the time, so it is told from one by its commas."""
    named = TaskPair(*pair)

    assert parse_name(str(named)) == named
    assert isinstance(parse_name(str(named)), TaskPair)
    assert str(TaskKey(0, *pair)) == f"1970-01-01T00:00:00.000Z,{named}"


def test_a_name_is_a_key_or_a_pair() -> None:
    """Other text is refused as for a key."""
    key = TaskKey(NOW_MS, "a", "b")

    assert parse_name(str(key)) == key
    for text in ("", "a", "a,b,c", "a,b,c,d"):
        with pytest.raises(InvalidKey):
            parse_name(text)
    with pytest.raises(InvalidKey, match="its ordering id is empty"):
        parse_name(",b")
    with pytest.raises(InvalidKey, match="or <ordering id>,<uniqueness key> without a time"):
        parse_name("a,b,50%")
    with pytest.raises(InvalidKey, match=r"is not a pair of ids: .*can't decode byte 0xff"):
        parse_name("a,%FF")


def test_p4_keys_order_by_time_then_ordering_id_then_uniqueness_key() -> None:
    """The order in which tasks of one ordering id run."""
    first, *others = in_order = [
        first_key_at(NOW_MS),
        TaskKey(NOW_MS, "a", "b"),
        TaskKey(NOW_MS, "a", "c"),
        TaskKey(NOW_MS, "b", "a"),
        TaskKey(NOW_MS + 1, "a", "a"),
    ]

    assert sorted([*others, first]) == in_order
