"""Every documented error can be imported from the package that users import, and caught."""

import inspect
import re

import pytest

import hourhand
import hourhand.errors
from hourhand.actors.model.values import errors
from hourhand.actors.model.values.errors import HourhandError
from tests.tidy.source import ROOT

DECLARED = {
    name: member
    for name, member in vars(errors).items()
    if inspect.isclass(member) and issubclass(member, HourhandError)
}


def test_page_module_and_code_name_the_same_errors() -> None:
    """What the page names can be imported, and what can be imported is on the page."""
    page = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^- `([a-z-]+)`, `(\w+)`:", page, re.MULTILINE))
    branches = set(re.findall(r"Catch them as `(\w+)`", page))

    assert set(rows.values()) | branches | {"HourhandError"} == set(hourhand.errors.__all__)
    assert set(hourhand.errors.__all__) == set(DECLARED)
    for code, name in rows.items():
        assert getattr(hourhand.errors, name).code == code


@pytest.mark.parametrize("name", sorted(DECLARED))
def test_an_error_of_the_module_is_the_one_that_is_raised(name: str) -> None:
    """One class under both names, so ``except`` and ``isinstance`` find it."""
    assert getattr(hourhand.errors, name) is DECLARED[name]


def test_the_base_is_the_same_at_both_doors() -> None:
    """``from hourhand import HourhandError`` stays."""
    assert hourhand.HourhandError is hourhand.errors.HourhandError
