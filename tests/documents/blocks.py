"""The fenced blocks of a page, with the line they begin at and the file they are meant for.

Decides what counts as ours: a fence that says ``python`` and nothing else, and console lines.
``python Celery`` is another project's code, shown beside ours.
"""

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.tidy.source import ROOT, documents

_INLINE = re.compile(r"`hourhand ([a-z][^`]*)`")
_NAME = re.compile(r"[a-z][a-z-]*")
_FILE = re.compile(r"<!-- file: (\S+) -->")


class Block(NamedTuple):
    """One fenced block."""

    info: str
    text: str
    line: int
    """Of its first line of content, from 1."""
    file: str | None
    """The file a reader is told to put it into."""


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page, in order."""
    info, begun, file = None, 0, None
    lines = page.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        if info is None and line.startswith("```"):
            info, begun = line.removeprefix("```").strip(), number + 1
        elif info is not None and line == "```":
            yield Block(info, "\n".join(lines[begun - 1 : number - 1]) + "\n", begun, file)
            info, file = None, None
        elif info is None and (found := _FILE.fullmatch(line)):
            file = found[1]


def python_pages() -> list[str]:
    """Return the names of all pages with Python of ours."""
    return [
        page.relative_to(ROOT).as_posix()
        for page in documents()
        if any(block.info == "python" for block in blocks(page))
    ]


def commands(page: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and words of each ``hourhand`` command that a page shows."""
    for block in blocks(page):
        if block.info not in {"", "console", "sh"}:
            continue
        prompt = "$ " if block.text.startswith("$ ") else ""
        for number, line in enumerate(block.text.splitlines(), start=block.line):
            if not line.startswith(prompt):
                continue
            words = _words(line.removeprefix(prompt).strip())
            if words[:1] == ["hourhand"] and len(words) > 1:
                yield number, words[1:]


def named_commands(page: Path) -> Iterator[list[str]]:
    """Yield the names in each command that prose mentions: ``relay``, ``pending``."""
    for text in _INLINE.findall(page.read_text(encoding="utf-8")):
        yield [*itertools.takewhile(_NAME.fullmatch, text.split())]


def _words(line: str) -> list[str]:
    """Return the words of a shell line up to what is the shell's own."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words: list[str] = []
    try:
        for word in lexer:
            if set(word) <= set("|&;<>"):
                # ``2> file`` has the number before the sign.
                return words[:-1] if words and words[-1].isdigit() and ">" in word else words
            words.append(word)
    except ValueError:
        # A quotation that goes on in the next line is prose or data, no command of ours.
        return []
    return words
