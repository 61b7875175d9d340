"""The checksum of a row: any value, in any column, that is not what was written."""

import pytest

from hourhand.scheduler.adapters.embedded.seal import Damage, opened, sealed

ROW = (3, 1_770_601_272_959, "customer-7", "ünïcode", b"data", None, 0, -5)


def test_a_sealed_row_opens_as_it_was() -> None:
    """The checksum stands last, and goes."""
    assert sealed(ROW)[:-1] == ROW
    assert opened(sealed(ROW)) == ROW
    assert opened(sealed(())) == ()


@pytest.mark.parametrize("column", range(len(ROW) + 1))
def test_a_changed_column_is_noticed(column: int) -> None:
    """Also one that became another type of the same look, and the checksum itself."""
    row = sealed(ROW)
    for value in (1, "customer-8", b"customer-7", "data", 3.0):
        with pytest.raises(Damage, match="not what was written"):
            opened((*row[:column], value, *row[column + 1 :]))


def test_a_row_of_the_first_version_is_believed() -> None:
    """It was written without a checksum."""
    assert opened((*ROW, None)) == ROW
