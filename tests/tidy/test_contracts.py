"""The tools that judge the whole tree, as tests: linter, formatter, types, import contracts."""

import subprocess
import sys

import pytest

from tests.tidy.source import ROOT

TOOLS = {
    "ruff check": ["ruff", "check", "--quiet", "--output-format", "concise"],
    "mypy": ["mypy", "--no-error-summary"],
}


def _run(*command: str) -> tuple[int, str]:
    result = subprocess.run(
        command,
        capture_output=True,
        check=False,
        cwd=ROOT,
        text=True,
        timeout=600,
    )
    return result.returncode, (result.stdout + result.stderr).strip()


@pytest.mark.parametrize("tool", TOOLS)
def test_the_tool_has_nothing_to_say(tool: str) -> None:
    """What it prints is the failure; ``make format`` mends what can be mended by rule."""
    code, output = _run(sys.executable, "-m", *TOOLS[tool])

    assert code == 0, f"\n{output}"


def test_the_formatter_would_change_nothing() -> None:
    """``make format`` mends it; the failure lists the files, not the changes."""
    code, output = _run(sys.executable, "-m", "ruff", "format", "--check")

    places = [line for line in output.splitlines() if "-->" in line or "Would" in line]
    assert code == 0, "\nrun make format:\n" + "\n".join(places)


def test_every_import_goes_the_right_way() -> None:
    """The contracts of setup.cfg; a file no contract lists fails too."""
    program = (
        "import sys; from importlinter.cli import lint_imports;"
        " sys.exit(lint_imports(config_filename='setup.cfg', no_cache=True, no_logo=True))"
    )

    code, output = _run(sys.executable, "-c", program)

    assert code == 0, f"\n{output}"
