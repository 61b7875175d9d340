"""``hourhand run --reload`` and ``hourhand dev``: one node process, a new one after each change.

Decides when the process is replaced: a file changed. The running process drains first, as at any
graceful stop, so that nothing is lost. One that ends by itself, because its code cannot be
imported or crashed, is started again by the next change. Tasks are never looked at here.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType

import typer

from hourhand.actors.model.values.display import logged_stack, stack_of
from hourhand.actors.model.values.errors import InvalidExecutor, InvalidInput
from hourhand.scheduler.cli.failing import EXIT_OPERATOR, say
from hourhand.scheduler.cli.line_format import says_json
from hourhand.scheduler.cli.process_running import (
    CLOSING_MS,
    ChildPlace,
    ChildProcess,
    MakeCommand,
    ended_words,
)
from hourhand.scheduler.configuration.optional_dependencies import required_by
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.executors.loading import LoadedExecutors, load_executors
from hourhand.scheduler.runtime.interrupts import EXIT_INTERRUPTED, signals_taken_by
from hourhand.scheduler.scheduler import Scheduler

Watch = Callable[[], AsyncIterator[Sequence[str]]]
"""Yields the paths of files that changed, until it is closed."""
_NAMED_MAX = 3
_SUFFIXES = frozenset({".py", ".pyx", ".pyd"})
_STACK_CHARS_MAX = 8_000
_SKIPPED_FOLDERS = frozenset(
    {"venv", "env", "site-packages", "build", "dist", "node_modules", "__pycache__"}
)
"""Folders below the working folder that hold no code of the user's, beside those that begin with
a dot."""


def stop_ms_of(settings: Settings) -> int:
    """Return the time for a node process to stop, after which it is killed."""
    return settings.tree.recovery.drain_deadline_ms + CLOSING_MS


def child_command() -> MakeCommand:
    """Return what makes the command of a node process: this command line, as a child's."""

    def command(number: int, descriptor: int) -> list[str]:
        return [sys.executable, *sys.orig_argv[1:], "--child", f"{number}:{descriptor}"]

    return command


async def python_changes(folder: Path) -> AsyncIterator[Sequence[str]]:
    """Yield the Python files of a folder that changed, all of one moment together.

    Needs watchfiles.
    """
    from watchfiles import awatch

    def is_chosen(_change: object, path: str) -> bool:
        changed = Path(path)
        return changed.is_relative_to(folder) and is_code(changed.relative_to(folder))

    async for changes in awatch(folder, watch_filter=is_chosen):
        yield sorted({str(Path(path).relative_to(folder)) for _, path in changes})


def is_code(path: Path) -> bool:
    """True for the path of a Python file that a program may have, from its working folder on.

    The folders above the working folder may have any name.
    """
    *folders, name = path.parts
    # Editors write such files beside the one that is edited.
    is_temporary = name.startswith((".", "flycheck_"))
    is_skipped = any(each.startswith(".") or each in _SKIPPED_FOLDERS for each in folders)
    return path.suffix in _SUFFIXES and not is_temporary and not is_skipped


async def no_changes() -> AsyncIterator[Sequence[str]]:
    """Yield nothing, ever."""
    await asyncio.Event().wait()
    yield ()


class Reloader:
    """Runs one node process at a time until told to stop; used once."""

    def __init__(
        self, make_command: MakeCommand, watch: Watch = no_changes, *, stop_ms: int
    ) -> None:
        """``stop_ms`` is the time for a process to end once it was told to."""
        self._make_command = make_command
        self._watch = watch
        self._stop_ms = stop_ms
        self._process: ChildProcess | None = None
        self._changed = asyncio.Event()
        """Set by a change, and by a stop, since the process was started."""
        self._signals = 0
        self._stopping = False
        self._cut_off = False
        """True if a process was killed in the stop."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, beside: Callable[[], None] = lambda: None) -> int:
        """Run in the main thread until stopped; return the exit code.

        ``beside`` is called once, on the event loop. The first SIGINT or SIGTERM lets the process
        drain; a second one kills it.
        """
        with signals_taken_by(self._take_signal):
            return asyncio.run(self._run(beside))

    def stop(self) -> None:
        """Let the process drain, and end; called on the loop, repeatable."""
        self._stopping = True
        self._replace()

    async def _run(self, beside: Callable[[], None]) -> int:
        self._loop = asyncio.get_running_loop()
        if self._signals:
            return 0
        beside()
        watching = asyncio.ensure_future(self._take_changes())
        try:
            # The watch begins before the first process reads a file.
            await asyncio.sleep(0)
            code = await self._keep()
        finally:
            watching.cancel()
            await asyncio.wait([watching])
        return EXIT_INTERRUPTED if self._cut_off else code

    async def _keep(self) -> int:
        """Start the process after each change until everything stops; return the exit code."""
        has_worked = False
        while not self._stopping:
            self._changed.clear()
            self._process = process = ChildProcess(1, self._make_command)
            code = await process.live()
            has_worked = has_worked or process.lives > 0
            if self._changed.is_set():
                continue
            if code == EXIT_OPERATOR and not has_worked:
                # No change of code mends the installation.
                return code
            say(f"the node {ended_words(code)}; the next save starts it again")
            await self._changed.wait()
        return 0

    async def _take_changes(self) -> None:
        try:
            async for paths in self._watch():
                more = f" and {len(paths) - _NAMED_MAX} more" if len(paths) > _NAMED_MAX else ""
                say(f"{', '.join(paths[:_NAMED_MAX])}{more} changed; the node starts again")
                self._replace()
        except (OSError, RuntimeError) as error:
            # The system may watch fewer files than the folder has.
            say(f"changes are not noticed, so start the command again after one: {error}")

    def _replace(self) -> None:
        """Let the process drain; it is killed when its time is over."""
        assert self._loop is not None, "it is called on the loop"
        self._changed.set()
        if self._process is not None:
            self._process.stop()
            self._loop.call_later(self._stop_ms / 1000, self._kill_late, self._process)

    def _kill_late(self, process: ChildProcess) -> None:
        if process.is_there:
            say(f"the node did not end within {self._stop_ms} ms: killed; its tasks run again")
            self._kill(process)

    def _kill(self, process: ChildProcess | None) -> None:
        if process is not None and process.is_there:
            self._cut_off = self._stopping
            process.kill()

    def _take_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._signals += 1
        if self._loop is not None:
            again = self._signals > 1
            self._loop.call_soon_threadsafe(self._kill_now if again else self._stop_by_signal)

    def _stop_by_signal(self) -> None:
        say("the node waits for running attempts and stops; signal again to kill it")
        self.stop()

    def _kill_now(self) -> None:
        self._kill(self._process)


def run_reloading(settings: Settings, paths: list[str], child: str | None, processes: int) -> int:
    """Run ``hourhand run --reload``, or its node where this is the child; return the exit code."""
    if processes > 1:
        raise InvalidInput("--reload is for one process: leave --processes out")
    if child is not None:
        run_child(child, settings, paths)
        return 0
    with required_by("`hourhand run --reload`"):
        import watchfiles  # noqa: F401 - only its absence matters here
    folder = Path.cwd()
    say(f"the node starts again when a Python file below {folder} changes; Ctrl-C stops it")
    watch = partial(python_changes, folder)
    return Reloader(child_command(), watch, stop_ms=stop_ms_of(settings)).run()


def run_child(child: str, settings: Settings, paths: list[str]) -> None:
    """Run the node of a command that reloads; an error in its code is shown with its stack."""
    users = _loaded(paths)
    scheduler = Scheduler(settings, executor=users.executor, executors=users.executors)
    # Printed lines are shown in their order between those of the log.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    ChildPlace.of(child).run(scheduler)


def _loaded(paths: list[str]) -> LoadedExecutors:
    try:
        return load_executors(paths)
    except InvalidExecutor as error:
        if error.__cause__ is not None and not says_json():
            typer.echo(logged_stack(stack_of(error.__cause__, _STACK_CHARS_MAX)), err=True)
        raise
