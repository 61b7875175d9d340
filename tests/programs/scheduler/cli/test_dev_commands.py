"""``hourhand dev`` and ``hourhand run --reload``, as somebody uses them who writes the code."""

import os
import re
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import httpx
import pytest

from tests import command_line
from tests.waiting import until

ROOT = Path(__file__).parents[4]
WAIT_S = 60

_TASKS = """
from pathlib import Path
from threading import Event

from hourhand import Hourhand

app = Hourhand()


@app.task("say-hello")
def say_hello(data: dict) -> None:
    print("hello", data["name"])


@app.task("fail")
def fail(data: dict) -> None:
    raise ValueError("no such invoice")


@app.task("slow")
def slow(data: dict) -> None:
    with Path("slow.txt").open("a") as file:
        print("began", file=file, flush=True)
        while not Path("go").exists():
            Event().wait(0.02)
        print("ended", file=file, flush=True)
"""


_STUCK = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("stuck", flush=True)
while True:
    signal.pause()
"""


class Program:
    """A command in a folder, and what it has shown so far."""

    def __init__(self, process: "subprocess.Popen[bytes]", output: int) -> None:
        self.process = process
        self._output = output
        self._shown = b""
        self._place = 0
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                more = os.read(self._output, 65_536)
            except OSError:
                more = b""
            with self._changed:
                self._shown += more
                self._changed.notify_all()
            if not more:
                os.close(self._output)
                return

    def shows(self, pattern: str) -> "re.Match[str]":
        """Wait until it has shown text that matches, behind what matched before."""
        with self._changed:
            while True:
                text = self._shown.decode(errors="replace")
                if found := re.compile(pattern).search(text, self._place):
                    self._place = found.end()
                    return found
                assert self._changed.wait(WAIT_S), f"{pattern!r} is not in {text}"

    @property
    def shown(self) -> str:
        """All that it has shown."""
        with self._changed:
            return self._shown.decode(errors="replace")

    def ends(self) -> int:
        """Wait for its end, and return its exit code."""
        return self.process.wait(WAIT_S)


class Terminal:
    """A pseudo-terminal, of which a command is the foreground; its keys are typed here."""

    def __init__(self) -> None:
        self.keys, self._inner = os.openpty()
        self.name = os.ttyname(self._inner)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        os.close(self._inner)
        os.close(self.keys)

    def press(self, key: str) -> None:
        """Type a key."""
        os.write(self.keys, key.encode())

    @property
    def modes(self) -> list[object]:
        """How the terminal treats keys."""
        return termios.tcgetattr(self._inner)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make every command work in a folder of its own, which has a program."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.py").write_text(_TASKS)
    return tmp_path


def schedule(kind: str, *words: str) -> None:
    """Schedule a task with another command, as in another terminal."""
    data = '{"name": "Ada"}'
    done = command_line.run(
        "schedule", "--kind", kind, "--ordering-id", kind, "--data", data, *words
    )
    assert done.exit_code == 0, done.output


@contextmanager
def started(
    folder: Path, *words: str, terminal: Terminal | None = None, **environment: str
) -> Iterator[Program]:
    """Run a command, in a terminal of its own or without one; it is killed in the end."""
    command = [sys.executable, "-m", "hourhand", *words]
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    ours, theirs = os.pipe()
    if terminal is not None:
        # Opened by the leader of a session, it becomes the terminal that controls it.
        command = ["sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', terminal.name, *command]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=variables | environment,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Program(process, ours if terminal is None else os.dup(terminal.keys))
    finally:
        process.kill()
        process.wait(WAIT_S)


def test_a_program_is_written_while_it_runs(folder: Path) -> None:
    """The dashboard's address comes first, then coloured lines; in the end the terminal is as it
    was.
    """
    with Terminal() as terminal:
        modes = terminal.modes
        with started(folder, "dev", "--port", "0", terminal=terminal) as dev:
            address = dev.shows(r"\Ahourhand: the dashboard is on (http://127\.0\.0\.1:\d+)\r\n")
            dev.shows("works on 16 partitions")
            assert "Hourhand" in httpx.get(address[1], follow_redirects=True).text
            keys_do_what_the_help_says(dev, terminal)
            schedule("fail", "--in", "0s")
            dev.shows(r"\x1b\[1;31mfailure .*ValueError: no such invoice")
            dev.shows(r'raise ValueError\("no such invoice"\)')
            a_broken_file_costs_nothing(dev, folder)
            terminal.press("q")
            dev.shows("the node has stopped")
            assert dev.ends() == 0
        assert terminal.modes == modes


def keys_do_what_the_help_says(dev: Program, terminal: Terminal) -> None:
    """One runs what waits for a later time, one pauses and resumes."""
    schedule("say-hello", "--in", "2h")
    # The node has read it from the log.
    until(lambda: "pending" in command_line.run("list").stdout)
    terminal.press("r")
    dev.shows("hello Ada")
    dev.shows(r"\x1b\[32msuccess +\x1b\[0msay-hello \S+ in \d+ ms")
    terminal.press("p")
    dev.shows("paused: no attempt starts until p is pressed again")
    assert '"all"' in command_line.run("pause", "-o", "json").stdout
    terminal.press("p")
    dev.shows("resumed")
    assert '"all"' not in command_line.run("pause", "-o", "json").stdout


def a_broken_file_costs_nothing(dev: Program, folder: Path) -> None:
    """Code that runs ends first, the error is shown, and the next save runs what waited."""
    schedule("slow", "--in", "0s")
    until((folder / "slow.txt").exists)
    (folder / "tasks.py").write_text(_TASKS + "\nno_such_name\n")
    dev.shows(r"tasks\.py changed; the node starts again")
    (folder / "go").touch()
    dev.shows("NameError: name 'no_such_name' is not defined")
    dev.shows("the node ended with exit code 2; the next save starts it again")
    schedule("say-hello", "--in", "0s")
    (folder / "tasks.py").write_text(_TASKS.replace('"hello"', '"good day"'))
    dev.shows("good day Ada")
    # It began once: the reload waited for its end.
    assert (folder / "slow.txt").read_text().split() == ["began", "ended"]


def test_a_second_node_in_the_folder_ends_the_command(folder: Path) -> None:
    """No save mends that; and a dashboard that nobody placed takes another port than one that is
    taken.
    """
    with started(folder, "dev") as first:
        address = first.shows(r"the dashboard is on (\S+)")[1]
        first.shows("works on 16 partitions")
        with started(folder, "dev") as second:
            assert second.shows(r"the dashboard is on (\S+)")[1] != address
            second.shows(r"\[folder-locked\]")
            assert second.ends() == 3
        os.kill(first.process.pid, signal.SIGINT)
        assert first.ends() == 0


def test_a_command_that_reloads_runs_what_was_saved_last(folder: Path) -> None:
    """Without a terminal there are no keys and no colours, and SIGTERM drains."""
    with started(folder, "run", "--executor", "tasks:app", "--reload") as node:
        node.shows("works on 16 partitions")
        (folder / "tasks.py").write_text(_TASKS.replace('"hello"', '"good day"'))
        node.shows("tasks.py changed; the node starts again")
        node.shows("works on 16 partitions")
        schedule("say-hello", "--in", "0s")
        node.shows("good day Ada")
        schedule("slow", "--in", "0s")
        until((folder / "slow.txt").exists)

        os.kill(node.process.pid, signal.SIGTERM)
        (folder / "go").touch()

        assert node.ends() == 0
        assert "\x1b" not in node.shown
    assert (folder / "slow.txt").read_text().split() == ["began", "ended"]


@pytest.mark.parametrize("signals", [1, 2])
def test_a_node_that_does_not_end_is_killed(folder: Path, signals: int) -> None:
    """When its time is over, or by a second signal; what was cut off runs again."""
    (folder / "tasks.py").write_text(_STUCK)
    program = (
        "import sys\nfrom hourhand.scheduler.cli.reloading import Reloader\n"
        "child = [sys.executable, '-I', '-S', 'tasks.py']\n"
        f"sys.exit(Reloader(lambda *_: child, stop_ms={100 if signals == 1 else 900_000}).run())\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"stuck\n"
        process.send_signal(signal.SIGTERM)
        assert b"again to kill it" in process.stdout.readline()
        if signals == 2:
            process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 130
