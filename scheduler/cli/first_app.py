"""The files that ``hourhand init`` writes: a first program, its test, and a few lines about them.

Decides their text, and that no file is ever replaced.
"""

import re
from contextlib import suppress
from pathlib import Path

from hourhand.actors.model.values.errors import InvalidInput

_NEEDED = frozenset({"hourhand", "pytest"})
"""Packages that the program needs, whose name it cannot have."""
_TASKS = """\
from hourhand import Hourhand

app = Hourhand()


@app.task("say-hello")
def say_hello(data: dict) -> None:  # or: async def
    print("hello", data["name"])
"""

_TEST = """\
from datetime import UTC, datetime

from hourhand.testing import VirtualScheduler

from tasks import app, say_hello


def test_hello_is_said_at_its_time() -> None:
    scheduler = VirtualScheduler(executors=app, now=datetime(2026, 1, 1, tzinfo=UTC))
    task = say_hello.make_task(
        {"name": "Ada"},
        ordering_id="greetings",
        at=datetime(2026, 1, 1, hour=8, tzinfo=UTC),
    )
    scheduler.schedule_task(task)

    assert not scheduler.advance(hours=7)

    scheduler.advance(hours=1)
    scheduler.assert_executed(kind="say-hello", data={"name": "Ada"})
"""

_PROJECT = """\
[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["hourhand"]

[dependency-groups]
dev = ["hourhand[dev]", "pytest>=8"]
"""

_README = """\
# {name}

    hourhand dev                        # a node and the dashboard; starts again when a file changes
    hourhand schedule --kind say-hello --ordering-id greetings --in 5s --data '{{"name": "Ada"}}'
    pytest                              # a test that lets hours pass in milliseconds

On a machine that only runs it: `hourhand run --executor tasks:app`.
"""


def write_first_app(folder: Path) -> list[str]:
    """Write the files into a folder, which is made if it is missing; return their names.

    Raises InvalidInput, and writes nothing, where one of them exists or the folder cannot be
    written.
    """
    name = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-") or "first-app"
    if name in _NEEDED:
        name = f"{name}-app"
    texts = {
        "tasks.py": _TASKS,
        "test_tasks.py": _TEST,
        "pyproject.toml": _PROJECT.format(name=name),
        "README.md": _README.format(name=name),
    }
    there = [each for each in texts if (folder / each).exists() or (folder / each).is_symlink()]
    if there:
        raise InvalidInput(
            f"{folder / there[0]} exists already, and nothing was written: name another folder,"
            " such as `hourhand init first-app`"
        )
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for each, text in texts.items():
            # A file that came up meanwhile is an error, too.
            with (folder / each).open("x", encoding="utf-8") as file:
                written.append(folder / each)
                file.write(text)
    except OSError as error:
        for path in written:
            with suppress(OSError):
                path.unlink()
        raise InvalidInput(f"cannot write into {str(folder)!r}: {error}") from None
    return list(texts)
