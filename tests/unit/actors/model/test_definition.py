"""Names and generations of definitions."""

from actors.model.definition import (
    Definition,
    DefinitionKind,
    DefinitionName,
    is_own,
    ordering_id_parts,
)
from actors.model.key import TaskKey


def test_the_ordering_id_of_a_definition_tells_kind_and_id() -> None:
    """Whatever the id holds, colons included."""
    name = DefinitionName(DefinitionKind.TIMER, "a:b,c")

    assert name.ordering_id == "hourhand:timer:a:b,c"
    assert ordering_id_parts(name.ordering_id) == ("timer", "a:b,c")


def test_a_users_ordering_id_is_not_reserved() -> None:
    """Only the prefix makes one Hourhand's own."""
    assert ordering_id_parts("customer-7") is None
    assert not is_own(TaskKey(0, "customer-7", "hourhand:"))
    assert is_own(TaskKey(0, "hourhand:timer:x", ""))


def test_an_ended_definition_keeps_its_name_and_takes_the_later_offset() -> None:
    """An earlier record that comes late finds it and changes nothing."""
    name = DefinitionName(DefinitionKind.RECURRING, "nightly")
    row = Definition(name, 4, b"{}", 10)

    ended = row.ended_by(9, 1_000)

    assert not row.ended
    assert ended == Definition(name, 9, b"", None, 1_000)
    assert ended.ended
