"""Where reading begins, for every relation of what was noted to the topic that there is."""

import pytest

from hourhand.actors.model.values.log_offset import kept_offset
from hourhand.scheduler.ports.beginning import Found, Noted, chosen_beginning


@pytest.mark.parametrize(
    ("committed", "stored", "first", "end", "begins"),
    [
        (None, None, 3, 9, 3),
        (5, None, 3, 9, 5),
        (None, 5, 3, 9, 5),
        (5, 7, 3, 9, 7),
        (7, 5, 3, 9, 7),
        (9, 9, 3, 9, 9),
        (0, None, 0, 0, 0),
        (5, 10, 3, 9, 5),
        (10, 5, 3, 9, 5),
        (10, 10, 3, 9, 3),
        (None, 10, 3, 9, 3),
        (1, 2, 3, 9, 3),
    ],
)
def test_the_highest_offset_the_topic_can_hold_wins(
    committed: int | None, stored: int | None, first: int, end: int, begins: int
) -> None:
    """Beyond the end is not believed, before the beginning is gone."""
    found = Found(committed, first, end, "a", "a")

    beginning = chosen_beginning(Noted(stored, "a"), found)

    assert (beginning.next_offset, beginning.end_offset) == (begins, end)
    assert beginning.first_offset == first


@pytest.mark.parametrize(
    ("committed", "committed_topic", "begins"),
    [(None, "", 0), (25, "old", 0), (25, "", 0), (7, "new", 7)],
)
def test_a_topic_made_anew_is_read_from_its_beginning_however_long_it_is(
    committed: int | None, committed_topic: str, begins: int
) -> None:
    """Only what was committed for itself counts; it is above all of the one before."""
    found = Found(committed, 0, 40, "new", committed_topic)

    beginning = chosen_beginning(Noted(25, "old"), found)

    assert beginning.next_offset == kept_offset(1, begins) > 25
    assert (beginning.end_offset, beginning.topic_id) == (kept_offset(1, 40), "new")
    assert "recreated" in beginning.complaint


def test_each_further_topic_is_above_all_before_it() -> None:
    """Its own offsets are believed, in its era."""
    second = chosen_beginning(Noted(kept_offset(1, 25), "b"), Found(30, 0, 40, "b", "b"))
    third = chosen_beginning(Noted(kept_offset(1, 25), "b"), Found(30, 0, 40, "c", "b"))

    assert (second.next_offset, second.complaint) == (kept_offset(1, 30), "")
    assert third.next_offset == kept_offset(2, 0)


def test_what_a_version_before_noted_is_believed_as_far_as_the_topic_reaches() -> None:
    """It named no topic, in the store or in the group."""
    within = chosen_beginning(Noted(25), Found(24, 0, 40, "a"))
    beyond = chosen_beginning(Noted(25), Found(24, 0, 10, "a"))

    assert (within.next_offset, within.topic_id, within.complaint) == (25, "a", "")
    assert (beyond.next_offset, beyond.topic_id) == (kept_offset(1, 0), "a")
    assert "recreated" in beyond.complaint


def test_a_broker_that_names_no_topics_is_judged_by_length_alone() -> None:
    """The name that was noted stays, for when it does."""
    within = chosen_beginning(Noted(25, "a"), Found(25, 0, 40))
    beyond = chosen_beginning(Noted(25, "a"), Found(25, 0, 10))

    assert (within.next_offset, within.topic_id) == (25, "a")
    assert (beyond.next_offset, beyond.topic_id) == (kept_offset(1, 0), "a")


def test_a_group_that_no_store_stands_behind_is_believed_for_its_own_topic_only() -> None:
    """As the relay reads its in-topic: only the group keeps an offset."""
    same = chosen_beginning(Noted(), Found(25, 0, 40, "a", "a"))
    other = chosen_beginning(Noted(), Found(25, 0, 40, "b", "a"))

    assert (same.next_offset, same.complaint) == (25, "")
    assert other.next_offset == 0
    assert "recreated" in other.complaint


@pytest.mark.parametrize(
    ("noted", "found", "says"),
    [
        (Noted(10, "a"), Found(None, 0, 9, "a"), "ends at 9, but 10"),
        (Noted(None), Found(10, 0, 9, "a", "a"), "ends at 9, but 10"),
        (Noted(2, "a"), Found(1, 3, 9, "a", "a"), "begins at 3, but 2"),
        (Noted(5, "a"), Found(70, 3, 9, "a", "b"), ""),
    ],
)
def test_it_says_what_an_operator_should_know(noted: Noted, found: Found, says: str) -> None:
    """Lost and expired records are told; an old offset of the group is not, where none is lost."""
    complaint = chosen_beginning(noted, found).complaint

    assert says in complaint if says else not complaint
