"""Plain English in what people read: code, help, error messages and documents.

It knows a few patterns that make a sentence hard to read, and how each is written instead.  What
else makes prose plain is a reader's matter.
"""

import re
from collections.abc import Iterator

import pytest

from tests.tidy.source import ROOT, report, sources

_PATTERNS = {
    re.compile(
        r"(?<![Tt]here )\b(?:is|are|was|were) no"
        r" (?!longer\b|more\b|later\b|one\b|other\b|news\b|matter\b|good\b)\w+"
    ): "write 'is not a': somebody who reads 'is no' has to read it twice",
    re.compile(r"\ba \{?\w+\}?, no [A-Z][A-Za-z]+"): "write 'which is not a'",
}
"""What nobody writes, and what to write in its place."""


def _complaints(name: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        for pattern, advice in _PATTERNS.items():
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
