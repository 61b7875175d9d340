"""The shape of sentences in the product's docstrings and comments.

A sentence states something of a subject.  One that begins with a question word, and is not a
question, puts a clause in the place of a noun: a reader has to find out what it is about.
The rest of a sentence is for a reader to judge.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain

import pytest

from tests.tidy.generated_docs import PAGES
from tests.tidy.source import ROOT, Source, documents, report, sources

_BEGINNINGS = re.compile(
    r"(?:What|Whatever|Of|So (?:many|much|long|far|few|often)|Where|Wherever|Who|Whoever|Whose|Whom"
    r"|How|Which|Whichever|Whether|When|Why)\b"
)
"""``When`` begins a plain sentence as well; it is counted where no main clause follows."""
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z])")
_COMMENT = re.compile(r"(?:^|\s)# (.*)")
CLAUSES_OF_TESTS_MAX = 810
"""Sentences of tests that begin so: a number that only falls."""
_PAGES_FOR_CONTRIBUTORS = ("docs/adr/", "docs/design/", "docs/architecture.md", "docs/testing.md")
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.)\s)")
_MARKS = re.compile(r"(?:noqa|type:|pragma|ruff|fmt|mypy|pyright)\b")


def _strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every docstring, of modules, classes, functions, and of attributes below them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, str(node.value.value)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Every comment; lines of comment that follow each other are one."""
    begun, parts, last = 0, list[str](), -1
    for line, code in enumerate(text.splitlines(), start=1):
        if not (found := _COMMENT.search(code)):
            continue
        is_whole = not code[: found.start()].strip()
        if is_whole and parts and line == last + 1:
            parts.append(found[1])
        else:
            yield begun, " ".join(parts)
            begun, parts = line, [found[1]]
        last = line if is_whole else -1
    yield begun, " ".join(parts)


def _is_clause(sentence: str) -> bool:
    if not _BEGINNINGS.match(sentence) or sentence.rstrip().endswith("?"):
        return False
    return not sentence.startswith("When ") or "," not in sentence


def _clauses(text: str) -> Iterator[str]:
    """The sentences of a text that begin with a question word and are not a question."""
    return filter(_is_clause, _SENTENCE.split(" ".join(text.split())))


def _found(source: Source) -> Iterator[str]:
    for line, text in (*_strings(source.tree), *_comments(source.text)):
        if not _MARKS.match(text):
            yield from (f"{source.name}:{line}: {each[:80]}" for each in _clauses(text))


def test_sentences_begin_with_their_subject() -> None:
    """Docstrings and comments of the product are read."""
    report(
        chain.from_iterable(
            _found(each)
            for each in sources("actors", "benchmarks", "examples", "hourhand", "scheduler")
            if each.name not in PAGES
        )
    )


def test_sentences_of_tests_begin_so_ever_less_often() -> None:
    """Docstrings of tests go on from their names, and are rewritten where they are changed."""
    found = [each for source in sources("tests") for each in _found(source)]

    assert len(found) <= CLAUSES_OF_TESTS_MAX, "\n".join(found[-20:])


def test_sentences_of_pages_begin_with_their_subject() -> None:
    """Decisions and descriptions of the design; headings and tables have no sentences."""
    pages = {page.relative_to(ROOT).as_posix(): page for page in documents()}
    report(
        f"{name}: {each[:80]}"
        for name, page in pages.items()
        if name.startswith(_PAGES_FOR_CONTRIBUTORS) and name not in PAGES
        for item in _ITEM.split(_CODE.sub("", page.read_text(encoding="utf-8")))
        if not item.startswith(("#", "|"))
        for each in _clauses(item.lstrip("-*0123456789. \n"))
    )


@pytest.mark.parametrize(
    "text",
    [
        "What a node opens.",
        "Whether a task is open.",
        "A key.  Of a pair the ids.",
        "Where it is served.",
        "So many may wait.",
        "When it began.",
    ],
)
def test_a_clause_in_place_of_a_noun_is_found(text: str) -> None:
    """In the first sentence of a text, and in a later one."""
    assert Counter(_clauses(text)).total() == 1


@pytest.mark.parametrize(
    "text",
    [
        "True if a task is open.",
        "Return whether it is there.",
        "Who asks for this?",
        "When a node stops, its tasks wait.",
        "Offsets are dense.",
    ],
)
def test_a_plain_sentence_passes(text: str) -> None:
    """A subject, a verb, a question, or a clause of time before the main one."""
    assert not list(_clauses(text))
