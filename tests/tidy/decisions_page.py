"""The list of the decision records, from their titles: docs/adr/README.md."""

from pathlib import Path

from tests.tidy.source import ROOT


def decisions_page() -> str:
    """Return docs/adr/README.md: every decision with its status.

    A decision is accepted, unless a line below its title begins with ``Status:``.
    """
    paths = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))
    used = {int(path.name[:4]) for path in paths}
    *unused, last = (str(number) for number in range(1, max(used)) if number not in used)
    numbers = f"{', '.join(unused)} and {last}"
    lines = [
        "# Decisions",
        "",
        "Each page is one decision that closes other ways, in at most 300 words. A decision is",
        f"accepted, unless its line says otherwise. The numbers {numbers} were never used.",
        "`make docs` writes this page.",
        "",
    ]
    lines += [_row(path) for path in paths]
    return "\n".join(lines) + "\n"


def _row(path: Path) -> str:
    title, *rest = path.read_text(encoding="utf-8").splitlines()
    number, _, decision = title.removeprefix("# ").partition(". ")
    found = [line.removeprefix("Status:").strip() for line in rest if line.startswith("Status:")]
    status = f": {found[0]}" if found else ""
    return f"- [{number}. {decision}]({path.name}){status}"
