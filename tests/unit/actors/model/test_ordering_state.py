"""The states of an ordering id, as the code and the architecture page have them."""

import re

from actors.model.ordering_state import MODES_AFTER, PHASES_AFTER, OrderingMode, OrderingPhase
from tests.tidy.source import ROOT


def test_every_state_has_a_row() -> None:
    """Also one that nothing follows."""
    assert set(PHASES_AFTER) == set(OrderingPhase)
    assert set(MODES_AFTER) == set(OrderingMode)


def test_the_architecture_page_draws_the_tables() -> None:
    """One row for each state, in the order of the code."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = dict(re.findall(r"^\| ([a-z ]+) \| [^|]+ \| ([a-z, ]*?) *\|$", page, re.MULTILINE))

    for table in (PHASES_AFTER, MODES_AFTER):
        for state, after in table.items():
            names = ", ".join(each.name.lower().replace("_", " ") for each in after)
            assert drawn[state.name.lower().replace("_", " ")] == (names or "nothing")
