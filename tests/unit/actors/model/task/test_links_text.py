"""The place of links in a row's text, whatever the data begins and ends with."""

import json

import pytest

from hourhand.actors.model.task.links_text import (
    marked,
    may_have_links,
    split_links,
    split_mark,
    with_links,
)

LINKS = b'{"then":{"task":{"orderingId":"]"}}}'


@pytest.mark.parametrize("data", [b"{}", b' { "a":1}', b'{"a":"]"}', b'{"hourhand.kind":"x"}'])
def test_links_stand_in_front_and_leave_the_data_as_it_was(data: bytes) -> None:
    """The whole text is one JSON object; its length says where the data goes on."""
    text = marked(with_links(data, LINKS))
    is_marked, unmarked = split_mark(text)
    links, rest = split_links(unmarked)

    assert may_have_links(text)
    assert is_marked
    assert links == LINKS
    assert json.loads(rest) == json.loads(data)
    assert json.loads(text)["hourhand.links"][1] == json.loads(LINKS)


@pytest.mark.parametrize(
    "data",
    [
        b'{"hourhand.links":[3,{}]}',
        b'{"hourhand.links":[99999,{}]}',
        b'{"hourhand.links":1}',
        b"{}",
    ],
)
def test_data_that_looks_like_links_is_not_marked_as_such(data: bytes) -> None:
    """The mark at the end says it, and a length that does not fit is no length."""
    assert split_mark(data) == (False, data)
    assert split_links(data) == (None, data)
