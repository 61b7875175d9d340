"""An offset of a newer topic is above every one of an older topic, and both come out again."""

import pytest

from hourhand.actors.model.values.log_offset import RECORDS_MAX, broker_offset, era_of, kept_offset


@pytest.mark.parametrize("offset", [0, 1, 1_274, RECORDS_MAX - 1])
@pytest.mark.parametrize("era", [0, 1, 7, 511])
def test_era_and_offset_come_out_as_they_went_in(era: int, offset: int) -> None:
    """The first topic's offsets are kept as the broker counts them."""
    kept = kept_offset(era, offset)

    assert (era_of(kept), broker_offset(kept)) == (era, offset)
    assert kept_offset(0, offset) == offset


def test_every_offset_of_a_newer_topic_is_above_those_of_an_older_one() -> None:
    """So that a record of it is the later one."""
    assert kept_offset(1, 0) > kept_offset(0, RECORDS_MAX - 1)


@pytest.mark.parametrize("offset", [-1, -5, -(1 << 52), -(1 << 62)])
def test_what_has_no_place_in_the_log_has_the_first_era(offset: int) -> None:
    """Bulk loads, and rows that were moved from another log."""
    assert (era_of(offset), broker_offset(offset), era_of(None)) == (0, offset, 0)


def test_offsets_stay_exact_as_floating_point_numbers() -> None:
    """Dashboards read them as such."""
    kept = kept_offset(511, RECORDS_MAX - 1)

    assert int(float(kept)) == kept
