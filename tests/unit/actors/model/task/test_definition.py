"""Names and generations of definitions."""

from hourhand.actors.model.task.definition import (
    DefinitionKind,
    DefinitionName,
    ordering_id_parts,
)


def test_the_ordering_id_of_a_definition_tells_kind_and_id() -> None:
    """Whatever the id holds, colons included."""
    name = DefinitionName(DefinitionKind.TIMER, "a:b,c")

    assert name.ordering_id == "hourhand:timer:a:b,c"
    assert ordering_id_parts(name.ordering_id) == ("timer", "a:b,c")


def test_a_users_ordering_id_is_not_reserved() -> None:
    """Only the prefix makes one Hourhand's own."""
    assert ordering_id_parts("customer-7") is None
