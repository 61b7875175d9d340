"""The deaths and hangs that a test has its user code undergo.

Decides which attempt a script is for. Never ends anything.
"""

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.model.values.public import public
from hourhand.actors.model.values.suggestion import did_you_mean

_SIGNALS = {each.name: int(each) for each in signal.Signals}
_EXIT_CODE_MAX = 255


@dataclass(frozen=True, slots=True)
class ScriptedEnd:
    """The end of an attempt's process, or that it never ends by itself."""

    signal: int = 0
    """That kills it; 0 for none."""
    exit_code: int = 0
    memory_bytes: int = 0
    """That the process held when it was killed for it; 0 if it was not."""
    hangs: bool = False
    after_execute: bool = False
    """True if user code runs to its end before; otherwise it is not called."""


@dataclass(slots=True)
class ProcessScript:
    """The end of some attempts."""

    matches: Callable[[StoredTask], bool]
    end: ScriptedEnd
    left: int
    """Number of attempts that it is still for."""

    def use(self) -> None:
        """Note that an attempt, or a batch, follows it."""
        self.left -= 1


class Scripts:
    """The scripts of a test, in the order in which it made them."""

    def __init__(self) -> None:
        self._scripts: list[ProcessScript] = []

    def add(self, matches: Callable[[StoredTask], bool], end: ScriptedEnd, times: object) -> None:
        """Add one for the next ``times`` attempts of tasks that match; InvalidTask for a number
        below 1.
        """
        if type(times) is not int or times < 1:
            raise InvalidTask(f"times is {shown(times)}, a number of 1 or more is needed")
        self._scripts.append(ProcessScript(matches, end, times))

    def find(self, tasks: Sequence[StoredTask], *, in_process: bool = True) -> ProcessScript | None:
        """Return the script of attempts that run together; None where there is none.

        Outside of a process an attempt can only hang.
        """
        for script in self._scripts:
            fits = in_process or script.end.hangs
            if script.left and fits and any(map(script.matches, tasks)):
                return script
        return None


@public("hourhand.testing")
class NextAttempts:
    """The next attempts of some tasks, which a test has hang, or whose process it has die.

    A script takes the place of user code, which is not called. If several scripts match, the first
    one that is not used up counts.
    """

    def __init__(
        self,
        script: Callable[[ScriptedEnd, object], None],
        require_process: Callable[[], None],
        memory_bytes_max: int | None,
    ) -> None:
        """``script`` takes an end, and for how many attempts it is; ``require_process`` raises
        InvalidTask where nothing that matches runs in a process.
        """
        self._script, self._require_process = script, require_process
        self._memory_bytes_max = memory_bytes_max

    def dies_with(self, signal_name: str, *, times: int = 1, after_execute: bool = False) -> None:
        """Have a signal kill the process, such as ``SIGSEGV``, or ``SIGKILL`` as the out-of-memory
        killer sends it.

        ``times`` is the number of attempts. With ``after_execute`` user code runs to its end, and
        the process dies before its node hears of that. InvalidTask for an unknown signal, and where
        nothing that matches runs in a process.
        """
        self._require_process()
        named: object = signal_name
        if not (isinstance(named, str) and named in _SIGNALS):
            hint = did_you_mean(named, _SIGNALS) if isinstance(named, str) else ""
            raise InvalidTask(f"{shown(named)} is not the name of a signal{hint}")
        self._script(ScriptedEnd(signal=_SIGNALS[named], after_execute=after_execute), times)

    def exits_with(self, exit_code: int, *, times: int = 1, after_execute: bool = False) -> None:
        """Have user code end its process, as ``os._exit`` does; otherwise as ``dies_with``.

        InvalidTask for an exit code that is not from 0 to 255.
        """
        self._require_process()
        if type(exit_code) is not int or not 0 <= exit_code <= _EXIT_CODE_MAX:
            raise InvalidTask(
                f"the exit code is {shown(exit_code)}, 0 to {_EXIT_CODE_MAX} is needed"
            )
        self._script(ScriptedEnd(exit_code=exit_code, after_execute=after_execute), times)

    def dies_of_memory(self, *, times: int = 1, after_execute: bool = False) -> None:
        """Have the process hold more than ``tree.execution.memory_bytes_per_process_max``, for
        which its node kills it; otherwise as ``dies_with``.

        InvalidTask where the test's ``tree`` sets no such bound.
        """
        self._require_process()
        if self._memory_bytes_max is None:
            raise InvalidTask(
                "no bound is set: give tree= with execution.memory_bytes_per_process_max"
            )
        end = ScriptedEnd(memory_bytes=self._memory_bytes_max + 1, after_execute=after_execute)
        self._script(end, times)

    def hangs(self, *, times: int = 1) -> None:
        """Have user code not return, whatever it is asked.

        A process is killed as on a node, a coroutine cancelled, and a thread is told of: its task
        stays open.
        """
        self._script(ScriptedEnd(hangs=True), times)
