"""Which measures there are, and how they are chosen."""

import pytest

from benchmarks import catalogue, sizes


def test_every_measure_has_one_name() -> None:
    """And one family."""
    assert len(set(catalogue.MEASURES)) == len(catalogue.MEASURES)


def test_all_are_taken_where_none_is_named() -> None:
    """What ``make bench`` does."""
    assert catalogue.chosen("") == frozenset(catalogue.MEASURES)


def test_an_unknown_measure_is_refused_with_the_known_ones() -> None:
    """A typing error must not measure nothing."""
    with pytest.raises(catalogue.UnknownMeasure, match=r"drian.*drain_cluster"):
        catalogue.chosen("embedded, drian")


def test_the_engine_is_a_group_of_families() -> None:
    """Doors, pipeline and dashboard are not among them."""
    engine = catalogue.chosen("engine")
    assert {"drain_cluster", "lateness_1k", "takeover", "cost_curve"} <= engine
    assert not {"relay_1k", "timers_pop", "pipeline_read", "dashboard"} & engine


@pytest.mark.parametrize("version", sizes.ALL.values(), ids=sizes.ALL)
def test_what_a_version_leaves_out_is_a_measure(version: sizes.Sizes) -> None:
    """A name that is written wrong would leave out nothing."""
    assert version.left_out <= set(catalogue.MEASURES)
