"""Documents that cannot drift: what they name exists, what exists is named."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hourhand.actors.model.values import errors
from hourhand.actors.model.values.errors import HourhandError
from tests.tidy.generated_docs import PAGES, setting_variables
from tests.tidy.source import ROOT, documents, report, sources

PROMISES = range(1, 31)
DECISION_WORDS_MAX = 300
CONTRIBUTING_LINES_MAX = 120

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def _text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _prose(path: Path) -> str:
    """Return a document without its code blocks."""
    return _FENCE.sub("", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    """``make docs`` writes it again."""
    assert _text(name) == PAGES[name](), f"{name} is out of date: run make docs"


def test_every_error_code_is_documented_and_none_is_invented() -> None:
    """Codes are for searching; a code nobody explains is noise."""
    documented = set(re.findall(r"^- `([a-z-]+)`, `", _text("docs/errors.md"), re.MULTILINE))
    declared = {
        member.code
        for member in vars(errors).values()
        if isinstance(member, type) and issubclass(member, HourhandError)
    }

    assert documented == declared - {"hourhand", "caller", "operator", "internal"}


def test_every_promise_has_one_line() -> None:
    """Each number of the design stands once at the start of a line or table row."""
    found = re.findall(r"^[#|*\- ]*P(\d+)\b", _text("docs/promises.md"), re.MULTILINE)

    assert sorted(map(int, found)) == list(PROMISES)


@pytest.mark.parametrize("promise", PROMISES)
def test_every_promise_has_a_test(promise: int) -> None:
    """A test function or test file carries the number in its name."""
    wanted = re.compile(rf"test_p{promise}_")
    found = [
        source.name
        for source in sources("tests")
        if source.path.stem.startswith("test_")
        and (
            wanted.match(source.path.name)
            or any(wanted.match(function.node.name) for function in source.functions)
        )
    ]

    assert found, f"no test is named test_p{promise}_…"


@pytest.mark.parametrize("promise", PROMISES)
def test_every_promise_has_an_invariant_of_the_simulation(promise: int) -> None:
    """One function each: an unmatched number would be a promise nobody checks."""
    invariants = [
        function.node.name
        for source in sources("tests/simulation")
        if "invariants" in source.name
        for function in source.functions
    ]

    assert [name for name in invariants if re.match(rf"(check_)?p{promise}_", name)], invariants


def test_every_document_has_one_title() -> None:
    """The first line of a page is its only heading of the first level."""
    report(
        f"{_name(path)} has {len(titles)} titles"
        for path in documents()
        if len(titles := re.findall(r"^# .+", _prose(path), re.MULTILINE)) != 1
    )


def _anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)", _prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _broken_links(path: Path) -> Iterator[str]:
    for link in re.findall(r"\]\(([^)\s]+)\)", _prose(path)):
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        found = (path.parent / target) if target else path
        if not found.exists():
            yield f"{_name(path)}: {link} leads nowhere"
        elif anchor and found.suffix == ".md" and anchor not in _anchors(found):
            yield f"{_name(path)}: {link} names no heading of {found.name}"


def test_every_link_leads_somewhere() -> None:
    """Files and headings; nothing outside the repository is asked for."""
    report(problem for path in documents() for problem in _broken_links(path))


def test_decisions_are_short_and_complete() -> None:
    """At most 300 words: context, decision, what was rejected, consequences.

    The mechanism is described on a page of its own, which changes with it.
    """
    complaints = []
    for path in (ROOT / "docs/adr").glob("[0-9]*.md"):
        text = path.read_text(encoding="utf-8")
        words = sum(any(map(str.isalnum, word)) for word in text.split())
        if words > DECISION_WORDS_MAX:
            complaints.append(f"{_name(path)} has {words} words")
        complaints += [
            f"{_name(path)} has no heading {heading}"
            for heading in ("Context", "Decision", "Rejected", "Consequences")
            if not re.search(rf"^## {heading}", text, re.MULTILINE)
        ]
    report(complaints)


def test_decisions_are_numbered_without_holes() -> None:
    """1, 2, 3 and so on, in the name of the file and in its title."""
    paths = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))
    numbered = [
        (path.name[:4], path.read_text(encoding="utf-8").partition(". ")[0]) for path in paths
    ]
    assert numbered == [(f"{number:04}", f"# {number}") for number in range(1, len(paths) + 1)]


def test_the_page_for_who_carries_on_is_one_page() -> None:
    """A map, the commands, and what is easy to get wrong."""
    assert len(_text("CONTRIBUTING.md").splitlines()) <= CONTRIBUTING_LINES_MAX


def _make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", _text("Makefile"), re.MULTILINE))


def test_every_make_target_that_is_mentioned_exists() -> None:
    """In documents, in workflows, and in what the tests tell people to run."""
    places = [*documents(), ROOT / ".ci/run", *(ROOT / ".github").rglob("*.yaml")]
    targets = _make_targets()
    report(
        f"{_name(path)} mentions make {target}"
        for path in places
        for target in re.findall(
            r"(?:`|^\s*(?:\$ )?|- run: |exec )make ([a-z][a-z-]*)",
            path.read_text(encoding="utf-8"),
            re.MULTILINE,
        )
        if target not in targets
    )


def test_every_make_target_for_people_is_described() -> None:
    """A bare ``make`` shows what follows the two number signs."""
    described = re.findall(r"^([a-z][a-z-]*):.*## \w", _text("Makefile"), re.MULTILINE)

    assert set(described) == _make_targets() - {"need-chromium", "need-java", "need-mvn"}


def test_every_setting_that_is_mentioned_exists() -> None:
    """An environment variable in a document is one that is read."""
    known = setting_variables()
    report(
        f"{_name(path)} mentions {variable}"
        for path in documents()
        for variable in re.findall(r"\bHOURHAND_[A-Z_]+[A-Z]\b", path.read_text(encoding="utf-8"))
        if variable not in known
    )


def test_nothing_names_this_machine_or_a_package_index() -> None:
    """The project works wherever it is cloned, with whatever index pip is told."""
    private = re.compile(r"/(?:root|home|work|Users)/|pypi\.org|pythonhosted|repo1?\.maven")
    report(
        f"{_name(path)}: {found[0]}"
        for path in [
            *documents(),
            *(source.path for source in sources()),
            *(ROOT / name for name in ("Makefile", "setup.cfg", "pyproject.toml", ".ci/run")),
        ]
        if path != Path(__file__) and (found := private.search(path.read_text(encoding="utf-8")))
    )
