"""What an ordering id may do, as the code and the architecture page have it."""

import re

from hourhand.actors.model.window.ordering_state import MODES_AFTER, OrderingMode
from tests.property.test_ordering_executor import PHASES_AFTER, OrderingPhase
from tests.tidy.source import ROOT


def test_every_state_has_a_row() -> None:
    """Also one that nothing follows."""
    assert set(PHASES_AFTER) == set(OrderingPhase)
    assert set(MODES_AFTER) == set(OrderingMode)


def test_the_architecture_page_draws_the_tables() -> None:
    """One row for each state, in the order of the code."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = dict(re.findall(r"^\| ([a-z ]+) \| [^|]+ \| ([a-z, ]*?) *\|$", page, re.MULTILINE))
    tables = {
        state.name: [each.name for each in after]
        for table in (PHASES_AFTER, MODES_AFTER)
        for state, after in table.items()
    }

    for name, after in tables.items():
        names = ", ".join(each.lower().replace("_", " ") for each in after)
        assert drawn[name.lower().replace("_", " ")] == (names or "nothing")
