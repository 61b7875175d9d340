"""The list of the decision records, from their titles: docs/adr/README.md."""

from pathlib import Path

from tests.tidy.source import ROOT


def decisions_page() -> str:
    """Return docs/adr/README.md: every decision that stands."""
    paths = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))
    lines = [
        "# Decisions",
        "",
        "Each page is one decision that closes other ways, in at most 300 words. Status: all are",
        "accepted. A decision that replaces an earlier one says so in its first line, and the",
        "earlier page is deleted. `make docs` writes this page.",
        "",
    ]
    lines += [_row(path) for path in paths]
    return "\n".join(lines) + "\n"


def _row(path: Path) -> str:
    title, *_ = path.read_text(encoding="utf-8").splitlines()
    number, _, decision = title.removeprefix("# ").partition(". ")
    return f"- [{number}. {decision}]({path.name})"
