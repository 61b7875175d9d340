"""The first hours of a newcomer, with the wheel and what the core requires: programs and mistakes.

None asks an index, so they run wherever the wheel can be built.
"""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.documents.blocks import blocks
from tests.newcomer.misuses import MISUSES, PREAMBLE, Misuse
from tests.newcomer.programs import PROGRAMS, START, Program
from tests.tidy.source import ROOT

_LIMIT_S = 100
Answers = dict[str, tuple[str, str | None, str]]
"""Class, code and message by the name of the mistake."""
_JUDGE = """
import ast, json, sys

given = json.load(sys.stdin)
names = {}
exec(given["preamble"], names)
answers = {}
for name, source in given["misuses"]:
    *before, last = ast.parse(source).body
    try:
        exec(compile(ast.Module(before, []), name, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
            value.result(timeout=60) if hasattr(value, "result") else None
        else:
            exec(compile(ast.Module([last], []), name, "exec"), names)
        answers[name] = ["no error", None, ""]
    except Exception as error:
        answers[name] = [type(error).__name__, getattr(error, "code", None), str(error)]
print(json.dumps(answers))
"""


def _run(
    *command: str | Path, folder: Path, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    # Nothing of this environment: neither its packages nor its settings.
    variables = {"PATH": os.environ["PATH"]}
    return subprocess.run(
        command,
        input=given,
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def answers(elsewhere: Path, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Make every mistake in one process, as nothing of one may spoil the next; by name."""
    given = {"preamble": PREAMBLE, "misuses": [(each.name, each.source) for each in MISUSES]}
    done = _run(
        elsewhere / "venv/bin/python",
        "-c",
        _JUDGE,
        folder=tmp_path_factory.mktemp("misuses"),
        given=json.dumps(given),
    )
    assert done.returncode == 0, done.stderr
    found: Answers = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("misuse", MISUSES, ids=lambda misuse: misuse.name)
def test_a_mistake_is_answered_with_what_to_do(answers: Answers, misuse: Misuse) -> None:
    """By the class and code that are documented, at the call or by its future."""
    error, code, said = answers[misuse.name]

    assert (error, code) == (misuse.error, misuse.code), said
    assert misuse.said in said


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_first_program_does_what_its_reader_expects(
    elsewhere: Path, tmp_path: Path, program: Program
) -> None:
    """And says where it failed, when it did."""
    (tmp_path / "program.py").write_text(START + program.source, encoding="utf-8")

    done = _run(elsewhere / "venv/bin/python", "program.py", folder=tmp_path)

    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    assert not [part for part in program.prints if part not in printed], printed
    assert not [part for part in program.never if part in printed], printed


def test_the_program_of_the_readme_runs_until_it_is_interrupted(
    elsewhere: Path, tmp_path: Path
) -> None:
    """As it is written, except for the seconds one waits."""
    source = next(block.text for block in blocks(ROOT / "README.md") if block.info == "python")
    assert "timedelta(seconds=5)" in source
    (tmp_path / "invoices.py").write_text(
        source.replace("timedelta(seconds=5)", "timedelta(seconds=1)"), encoding="utf-8"
    )
    with subprocess.Popen(
        [elsewhere / "venv/bin/python", "-u", "invoices.py"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        printed = [process.stdout.readline(), process.stdout.readline()]
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        returned = process.wait(_LIMIT_S)

    assert printed[0].startswith("Receipt(key="), printed
    assert printed[1] == "sending invoice 42\n"
    assert (returned, "Traceback" in rest) == (0, False), rest


@contextmanager
def _developed(bin_folder: Path, folder: Path, *command: str) -> Iterator[Callable[[str], str]]:
    """Run a command until the block ends; hand a function that waits for a line with a text."""
    with subprocess.Popen(
        [bin_folder / command[0], *command[1:]],
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    ) as process:
        output = process.stdout
        assert output is not None

        def shows(text: str) -> str:
            return next(line for line in output if text in line)

        yield shows
        process.send_signal(signal.SIGINT)
        assert any("the node has stopped" in line for line in output)
        assert process.wait(_LIMIT_S) == 0


def _schedule(bin_folder: Path, folder: Path) -> None:
    words = [
        "schedule",
        "--kind",
        "say-hello",
        "--ordering-id",
        "greetings",
        "--in",
        "0s",
        "--data",
    ]
    done = _run(bin_folder / "hourhand", *words, '{"name": "Ada"}', folder=folder)
    assert done.returncode == 0, done.stderr


def test_the_first_day_from_the_wheel_alone(for_developers: Path, tmp_path: Path) -> None:
    """A first program is written, run, changed and tested, each by one command."""
    bin_folder, folder = for_developers / "venv/bin", tmp_path / "first"
    written = _run(bin_folder / "hourhand", "init", "first", folder=tmp_path)
    assert written.stderr.splitlines()[-1] == "hourhand: next: cd first && hourhand dev"

    with _developed(bin_folder, folder, "hourhand", "dev", "--port", "0") as shows:
        assert shows("").startswith("hourhand: the dashboard is on http://127.0.0.1:")
        shows("works on 16 partitions")
        _schedule(bin_folder, folder)
        assert shows("Ada") == "hello Ada\n"
        code = (folder / "tasks.py").read_text(encoding="utf-8")
        (folder / "tasks.py").write_text(code.replace('"hello"', '"good day"'), encoding="utf-8")
        shows("tasks.py changed; the node starts again")
        shows("works on 16 partitions")
        _schedule(bin_folder, folder)
        assert shows("Ada") == "good day Ada\n"
    tested = _run(bin_folder / "python", "-m", "pytest", "-q", folder=folder)

    assert "1 passed" in tested.stdout, tested.stdout + tested.stderr


def test_what_only_an_extra_brings_is_missed_aloud(elsewhere: Path, tmp_path: Path) -> None:
    """The node runs without dashboard and reload, and each line says what to install."""
    bin_folder = elsewhere / "venv/bin"
    _run(bin_folder / "hourhand", "init", folder=tmp_path)

    with _developed(bin_folder, tmp_path, "python", "-m", "hourhand", "dev") as shows:
        assert "the dashboard needs " in shows("pip install ")
        assert "a start after each change needs watchfiles" in shows("pip install ")
        shows("works on 16 partitions")
        _schedule(bin_folder, tmp_path)
        shows("hello Ada")
    refused = _run(
        bin_folder / "hourhand", "run", "--executor", "tasks:app", "--reload", folder=tmp_path
    )

    assert refused.returncode == 3
    assert "`hourhand run --reload` needs watchfiles" in refused.stderr


@pytest.mark.parametrize("name", ["scheduler.py", "actors/__init__.py"])
def test_a_file_of_the_users_may_have_the_name_of_a_folder_of_ours(
    elsewhere: Path, tmp_path: Path, name: str
) -> None:
    """Many projects have a ``scheduler.py``, and an application ``actors``."""
    own = tmp_path / name
    own.parent.mkdir(exist_ok=True)
    own.write_text("raise SystemExit('nobody imports it')\n", encoding="utf-8")
    program = "from hourhand import Scheduler\nprint(Scheduler.__name__)\n"
    (tmp_path / "program.py").write_text(program, encoding="utf-8")

    done = _run(elsewhere / "venv/bin/python", "program.py", folder=tmp_path)

    assert (done.returncode, done.stdout) == (0, "Scheduler\n"), done.stderr


def test_the_command_tells_its_version(elsewhere: Path, tmp_path: Path) -> None:
    """By the option that every command has."""
    done = _run(elsewhere / "venv/bin/hourhand", "--version", folder=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "0.1" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "returned", "said"),
    [
        ("list", 3, "there is no installation here: no folder 'hourhand-data'"),
        ("list --config none.toml", 3, "--config 'none.toml': there is no such file"),
        ("list --set storage=x", 3, "--set storage: no such setting; did you mean store?"),
        ("cancel nonsense", 2, "'nonsense' is not a task key: expected <instant>,"),
        ("listt", 2, "Did you mean 'list'?"),
        ("list --state x", 2, "invalid value for '--state': 'x' is not one of 'unknown', "),
        ("run --executor nope:X", 2, "No module named 'nope' [invalid-executor]"),
    ],
)
def test_a_mistaken_command_says_what_to_do_and_makes_nothing(
    elsewhere: Path, tmp_path: Path, arguments: str, returned: int, said: str
) -> None:
    """In one line; a listing in an empty folder most often is one in the wrong folder."""
    done = _run(elsewhere / "venv/bin/hourhand", *arguments.split(), folder=tmp_path)

    assert (done.returncode, done.stdout) == (returned, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [*tmp_path.iterdir()] == []
