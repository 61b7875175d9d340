"""Commands run in this process, on an embedded installation whose node runs beside them."""

import json
from pathlib import Path
from typing import Any

from typer.testing import Result

from hourhand import Settings
from hourhand.scheduler.configuration.settings import EmbeddedSettings, TopicSettings
from tests import command_line

PARTITIONS = 2


def settings_of(folder: Path) -> Settings:
    """Return the settings of an installation in a folder."""
    return Settings(
        embedded=EmbeddedSettings(folder=folder), topic=TopicSettings(partitions=PARTITIONS)
    )


def invoke(folder: Path, *arguments: str, typed: str | None = None) -> Result:
    """Run a command on that installation."""
    given = ["--set", f"embedded.folder={folder}", "--set", f"topic.partitions={PARTITIONS}"]
    return command_line.run(*arguments, *given, stdin=typed)


def answer(folder: Path, *arguments: str) -> Any:
    """Return what a command says as JSON."""
    result = invoke(folder, *arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
