"""A body that the admin API refuses is refused in words of Hourhand's."""

import random

import pytest

from hourhand.scheduler.admin.app import PREFIX
from tests.pydantic_phrases import PHRASES
from tests.unit.scheduler.admin.test_hostile import POSTS, body
from tests.unit.scheduler.admin.world import World, due

ROUNDS = 8
FILTER = {"states": [], "from": "2026-01-01T00:00:00Z", "to": "yesterday", "limit": 0}
WRONG: list[tuple[str, object, str]] = [
    ("actions/drop", {"filter": FILTER}, "body.filter.states: a value that is not empty is needed"),
    ("actions/drop", {"keys": "a"}, "body.keys: a list is needed"),
    ("actions/drop", {"key": ["a"]}, "body.key: there is no such name here"),
    ("actions/unblock", {"orderingIds": ["a"], "how": "dorp"}, "did you mean drop?"),
]


@pytest.mark.parametrize("path", POSTS)
def test_no_body_is_refused_in_pydantics_words(path: str) -> None:
    """Hostile ones and nearly right ones."""
    rng, world = random.Random(path), World()
    world.schedule(due(600))
    refused = []
    for _ in range(ROUNDS):
        answer = world.http.post(path, content=body(rng, path))
        if answer.status_code == 400 and answer.json().get("code") == "invalid-request":
            refused.append(answer.json()["detail"])

    assert not [each for each in refused if PHRASES.search(each)]


@pytest.mark.parametrize(("path", "given", "said"), WRONG)
def test_a_body_is_refused_with_where_and_what_is_needed(
    path: str, given: object, said: str
) -> None:
    """Without the value, which may be long or a secret."""
    world = World()
    answer = world.http.post(path, json=given)

    assert answer.status_code == 400, f"{PREFIX}/{path}"
    assert said in answer.text
