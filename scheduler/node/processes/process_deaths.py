"""The end of a process in words: what killed it, and the error of the attempt that it ran.

Decides which deaths are not the fault of the work, and use up no attempt.
"""

from hourhand.actors.model.execution.attempts import Ending
from hourhand.actors.model.values.errors import ProcessDied, ProcessTooLarge
from hourhand.actors.model.values.settings import ExecutionSettings
from hourhand.scheduler.node.processes.process_frames import PIPE_LOST_CODE, EndedProcess
from hourhand.scheduler.node.processes.remote_errors import signal_name

_KILL = 9
PIPE_LOST = {
    "broken": "its process wrote into the pipe to its node, and was killed",
    "silent": "its process closed the pipe to its node, and was killed",
}
"""Misuse of the pipe by user code, by the reason for the kill."""
UNCOUNTED = {
    "lease": "its process was killed, as the node's lease had ended",
    "given up": "its process was killed, as the partition goes to another node",
    "drained": "its process was killed just before the drain deadline",
    "closed": "its process was killed, as the node stops",
    "guardian": "its process was killed with the process that watches it",
    "behind": "its process was killed for what the attempt before it wrote into the pipe",
}
"""Reasons for a kill that are not the fault of the work."""
_WORDS = {
    "timeout": "deadline",
    "stuck": "stuck",
    "memory": "memory",
    "cancelled": "cancelled",
    "broken": "pipe",
    "silent": "pipe",
    "guardian": "guardian",
    "lease": "lease",
    "given up": "lease",
    "drained": "lease",
}
"""The words of ``PROCESS_DEATHS`` for what a process was killed for."""


def word_of(ended: EndedProcess, why: str, leaves: str) -> str:
    """Return the word of ``PROCESS_DEATHS`` for an end; ``why`` it was killed, if it was, and
    ``leaves`` is the bound for which it had to end.
    """
    if found := _WORDS.get(why) or leaves:
        return found
    if ended.code == PIPE_LOST_CODE:
        return "pipe"
    return "signal" if ended.signal else "exit"


def how_it_ended(ended: EndedProcess) -> str:
    """Return a text about the end of a process, such as ``a process was killed by SIGSEGV``."""
    if ended.signal:
        return f"was killed by {signal_name(ended.signal)}"
    return f"ended with exit code {ended.code}"


def error_of(
    ended: EndedProcess, why: str, settings: ExecutionSettings
) -> tuple[BaseException, Ending]:
    """Return the error and the ending of an attempt whose process is gone."""
    if why == "timeout":
        text = "it ran past its timeout, and its process was killed"
        if settings.kill_grace_ms:
            text += f" {settings.kill_grace_ms} ms later (tree.execution.kill_grace_ms)"
        return TimeoutError(text), Ending.TIMED_OUT
    if why == "memory":
        most = settings.memory_bytes_per_process_max
        text = (
            f"its process held {ended.memory_bytes} bytes of memory, at most {most} are allowed"
            " (tree.execution.memory_bytes_per_process_max), and was killed"
        )
        return ProcessTooLarge(text), Ending.FAILED
    if why in {"cancelled", "stuck"}:
        text = f"it was asked to end, and its process killed {settings.kill_grace_ms} ms later"
        return ProcessDied(f"{text} (tree.execution.kill_grace_ms)"), Ending.FAILED
    if why in PIPE_LOST or ended.code == PIPE_LOST_CODE:
        text = PIPE_LOST.get(why, "its process could not reach its node any more and ended")
        return ProcessDied(f"{text}: close no descriptors that you did not open"), Ending.FAILED
    hint = ""
    if ended.signal == _KILL:
        hint = ": if nobody did that, the machine or its container has run out of memory"
    return ProcessDied(f"its process {how_it_ended(ended)}{hint}"), Ending.FAILED
