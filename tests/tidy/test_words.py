"""Plain English in what people read: code, help, error messages and documents.

It knows a few patterns that make a sentence hard to read, and how each is written instead.  What
else makes prose plain is a reader's matter.
"""

import re
from collections.abc import Iterator, Mapping

import pytest

from tests.tidy.generated_docs import PAGES
from tests.tidy.source import ROOT, documents, report, sources

_PATTERNS = {
    re.compile(
        r"(?<![Tt]here )\b(?:is|are|was|were) no"
        r" (?!longer\b|more\b|later\b|one\b|other\b|news\b|matter\b|good\b)\w+"
    ): "write 'is not a': somebody who reads 'is no' has to read it twice",
    re.compile(r"\ba \{?\w+\}?, no [A-Z][A-Za-z]+"): "write 'which is not a'",
}
"""What nobody writes, and what to write in its place."""
_PAGE_PATTERNS = {
    re.compile(r"\b[Ww]hoever\b"): "name who it is: 'a user who', 'everybody who'",
    re.compile(r"\bwhat became of\b"): "write 'what happened to', or 'the outcome of'",
    re.compile(r"\b(?:bear|bears)\b(?! in mind)"): "write 'has', 'ignores' or 'tolerates'",
    re.compile(r"\bnothing but\b"): "write 'only'",
    re.compile(r",? and no more\b(?! than)"): "write 'only', or 'at most'",
    re.compile(r"\b[Tt]he (?:two|three|four|five|six) (?:first|last)\b"): "the number comes last",
    re.compile(r"\ball the same\b"): "write 'still' or 'anyway'",
    re.compile(r"\bnot as (?:it|they) must be\b"): "say what is wrong",
    re.compile(r"(?:^|[.:|] )(?:Left out|Pushed down|Not counted|Gone|Listed) (?:is|are)\b"): (
        "the subject comes first"
    ),
    re.compile(r"\b(?:be|been) played with\b"): "say what may happen to it",
    re.compile(r"\bis greedy\b|\bare greedy\b"): "say what it does",
    re.compile(r"\bwhat it is below\b|\bbeside what\b"): "say of what, or with what",
    re.compile(r"\bmade up for\b"): "write 'made late', or say what happens",
}
"""In pages that people write: what sounds translated, old, or like a saying."""


def _complaints(
    name: str, text: str, patterns: Mapping[re.Pattern[str], str] = _PATTERNS
) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        for pattern, advice in patterns.items():
            if found := pattern.search(line):
                yield f"{name}:{number}: {found[0]!r}: {advice}"


def test_sentences_are_plain() -> None:
    """Every file that people read, but for the page that shows what was there before."""
    for source in sources("actors", "hourhand", "scheduler", "examples", "benchmarks"):
        report(_complaints(source.name, source.text))
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        name = page.relative_to(ROOT).as_posix()
        if name != "docs/style.md":
            report(_complaints(name, page.read_text(encoding="utf-8")))


def test_pages_read_as_written_today() -> None:
    """Those that people write; what the code says of itself is judged with the code."""
    for page in documents():
        name = page.relative_to(ROOT).as_posix()
        if name in PAGES or name == "docs/style.md" or "docs/adr/" in name:
            continue
        report(_complaints(name, page.read_text(encoding="utf-8"), _PAGE_PATTERNS))


@pytest.mark.parametrize(
    "text",
    [
        "whoever may read it",
        "The three first are the key.",
        "It costs that attempt and no more.",
        "Pushed down are bounds.",
        "the installation is not as it must be",
    ],
)
def test_what_sounds_translated_is_found(text: str) -> None:
    """As pages had it before."""
    assert list(_complaints("page", text, _PAGE_PATTERNS))


@pytest.mark.parametrize("text", ["what is no task", "these are no numbers", "a Foo, no Bar"])
def test_what_is_hard_to_read_is_found(text: str) -> None:
    """As it was written before."""
    assert list(_complaints("page", text))


@pytest.mark.parametrize(
    "text", ["there is no task", "it is no longer there", "what is not a task"]
)
def test_what_is_plain_passes(text: str) -> None:
    """Words that stand after 'no' for a reason."""
    assert not list(_complaints("page", text))
