"""The glossary: one entry a word, in order, and a link to it from each page that uses the word.

Decides which words a stranger cannot know.  Pages made from the code, decision records and the
glossary itself are left out.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.generated_docs import PAGES
from tests.tidy.source import ROOT, documents, report

_GLOSSARY = ROOT / "docs/glossary.md"
_ENTRY = re.compile(r"^## (.+)$", re.MULTILINE)
_NOT_PROSE = re.compile(
    r"^```.*?^```$|<!--.*?-->|^#.*?$|`[^`\n]*`|\[[^\]]*\]\([^)]*\)", re.MULTILINE | re.DOTALL
)
"""Code, comments, headings and links."""
LINKED = {
    "bucket": r"buckets?",
    "catch-up": r"catch-up",
    "checkpoint": r"checkpoints?",
    "dead letter": r"dead[ -]letters?",
    "door": r"doors?",
    "epoch": r"epochs?",
    "fence": r"fences?",
    "herd": r"herds?",
    "lease": r"leases?",
    "misplaced": r"misplaced",
    "poison": r"poison(?:ed)?",
    "spill": r"spill(?:ed|s)?",
    "straggler": r"stragglers?",
    "suspect": r"suspects?",
    "watermark": r"watermarks?",
}
"""Words of ours, or of the field's small print, with the forms in which pages use them."""
_LEFT_OUT = {*PAGES, "docs/glossary.md", "docs/style.md", "CHANGELOG.md", "CONTRIBUTING.md"}


def pages() -> Iterator[Path]:
    """Yield the pages that explain their words by links."""
    for path in documents():
        name = path.relative_to(ROOT).as_posix()
        if name not in _LEFT_OUT and "docs/adr/" not in name and name.startswith(("docs/", "READ")):
            yield path


def unlinked(path: Path) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield each word that a page uses and never links, with its first use in the text."""
    text = path.read_text(encoding="utf-8")
    prose = _NOT_PROSE.sub(lambda found: re.sub(r"[^\n]", "\0", found[0]), text)
    for word, forms in LINKED.items():
        anchor = f"glossary.md#{word.replace(' ', '-')})"
        found = re.search(rf"\b(?:{forms})\b", prose, re.IGNORECASE)
        if found and anchor not in text:
            yield word, found


def test_every_word_has_one_entry_in_order() -> None:
    """So that a reader finds it."""
    entries = _ENTRY.findall(_GLOSSARY.read_text(encoding="utf-8"))

    assert entries == sorted(set(entries))
    assert entries
    assert LINKED.keys() <= set(entries)


@pytest.mark.parametrize("word", ["kind", "held", "letter", "place", "generation", "receipt"])
def test_words_of_screens_have_an_entry(word: str) -> None:
    """They stand in columns and messages, which have no links."""
    assert word in _ENTRY.findall(_GLOSSARY.read_text(encoding="utf-8"))


def test_each_page_links_the_words_that_it_uses() -> None:
    """At least once; the first use is the best place."""
    report(
        f"{path.relative_to(ROOT)}: {found[0]!r} is not linked to glossary.md#{word}"
        for path in pages()
        for word, found in unlinked(path)
    )
