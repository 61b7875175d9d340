"""A group works for one store; another one is refused by name."""

import pytest

from hourhand.actors.model.values.errors import GroupShared
from hourhand.scheduler.ports.store_identity import StoreIdentity, require_one_store

BLUE = StoreIdentity("a1", "keyspace blue")
GREEN = StoreIdentity("b2", "keyspace green")


def test_another_store_is_refused_with_both_names_and_what_to_do() -> None:
    """Whoever made the mistake sees which setting it is."""
    with pytest.raises(GroupShared, match=r"'g' .*'t' .*keyspace blue.*keyspace green.*backup"):
        require_one_store(GREEN, BLUE, "g", "t")


@pytest.mark.parametrize(
    ("own", "noted"),
    [
        (BLUE, BLUE),
        (BLUE, BLUE._replace(name="keyspace renamed")),
        (BLUE, StoreIdentity()),
        (StoreIdentity(), BLUE),
    ],
)
def test_the_same_store_and_an_unknown_one_are_not(
    own: StoreIdentity, noted: StoreIdentity
) -> None:
    """A version from before noted none, and a tool of the operator's clears the note."""
    require_one_store(own, noted, "g", "t")
