"""The outcomes of work in processes, as they are told to the tree and to operators.

Decides which attempts a death uses up.  Never touches a process.
"""

from collections.abc import Callable
from functools import partial

from hourhand.actors.model.execution.attempts import AttemptEnded, Ending
from hourhand.actors.model.operations.events import AttemptAbandoned, AttemptFailed
from hourhand.actors.model.values.settings import ExecutionSettings
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.endings import not_started
from hourhand.scheduler.node.processes.process_deaths import UNCOUNTED, error_of
from hourhand.scheduler.node.processes.process_frames import EndedProcess, SentEnd
from hourhand.scheduler.node.processes.process_place import ProcessJob
from hourhand.scheduler.node.processes.remote_errors import remote_error


class ProcessOutcomes:
    """Tells begins and ends of the work of one node's processes."""

    def __init__(
        self,
        calls: Calls,
        settings: ExecutionSettings,
        judge: Callable[[Callable[[], None]], object],
    ) -> None:
        """``judge`` calls a function where user code may be slow."""
        self._calls, self._settings, self._judge = calls, settings, judge

    def tell_begin(self, job: ProcessJob, started_ms: int) -> None:
        """Report once that user code of a job was called."""
        if not job.is_told:
            job.is_told = True
            for running in job.members:
                self._calls.begin(running, started_ms)

    def tell_end(
        self,
        job: ProcessJob,
        running: RunningAttempt,
        end: SentEnd,
        ended: AttemptEnded,
        *,
        is_late: bool,
    ) -> None:
        """Report an end that a process has sent; ``is_late`` if it was asked to end, as it ran past
        its timeout.
        """
        calls = self._calls
        if end.is_begun and not job.is_told:
            calls.begin(running, ended.started_ms)
        if ended.ending is Ending.FAILED and (is_late or running in calls.stuck):
            # An error that it raised as it was asked to end does not say what was wrong.
            error, ending = _raised_late(ended, is_late=is_late)
            self._judge(partial(self._fail_one, running, error, ending, ended.started_ms))
            return
        failure = end.failed
        is_given_up = running.abandoned and running.cancel is not None
        cancelled = is_given_up or running.interrupted
        if failure is not None and failure.is_told and not cancelled:
            attempt = running.attempt
            error = remote_error(ended.error_class, ended.error_message)
            calls.telemetry.emit(
                AttemptFailed(
                    attempt.partition,
                    attempt.task.key,
                    attempt.number,
                    ended.result,
                    ended.finished_ms - ended.started_ms,
                    error,
                    failure.is_showable,
                    ended.error_stack if failure.is_showable and failure.has_whole_stack else None,
                    attempt.task.kind,
                )
            )
        calls.end(running, ended)

    def lose(
        self, job: ProcessJob, ended: EndedProcess, why: str, executes_since_ms: int | None
    ) -> None:
        """End the work that had begun in a process that is gone."""
        if why in UNCOUNTED:
            self.abandon(job, why)
            return
        # User code runs before ``execute`` too: executors are made, and policies are asked.
        started_ms = executes_since_ms or self._calls.clock.now_ms()
        self.tell_begin(job, started_ms)
        error, ending = error_of(ended, why, self._settings)
        self._judge(partial(self._fail, job, error, ending, started_ms))

    def _fail(self, job: ProcessJob, error: BaseException, ending: Ending, started_ms: int) -> None:
        """End the attempts of a job; the policy of their kind, which is user code, is asked."""
        for running in job.members:
            self._fail_one(running, error, ending, started_ms)
        job.close()

    def _fail_one(
        self, running: RunningAttempt, error: BaseException, ending: Ending, started_ms: int
    ) -> None:
        try:
            ended = self._calls.failed(running, error, started_ms, ending)
        except BaseException as broken:  # noqa: BLE001 - as for a thread
            ended = self._calls.broken_off(running, broken)
        self._calls.end(running, ended)

    def abandon(self, job: ProcessJob, why: str) -> None:
        """End work that was killed for another reason than its own fault: it is started again."""
        for running in job.members:
            attempt = running.attempt
            text = UNCOUNTED.get(why, "its process ended before user code was called")
            if not running.abandoned:
                self._calls.telemetry.emit(
                    AttemptAbandoned(attempt.partition, attempt.task.key, attempt.number, text)
                )
            self._calls.end(running, not_started(attempt, self._calls.clock.now_ms()))
        job.close()

    def refuse(self, job: ProcessJob) -> None:
        """End work whose user code is not called: the tree starts it again."""
        for running in job.members:
            self._calls.refuse(running)
        job.close()


def _raised_late(ended: AttemptEnded, *, is_late: bool) -> tuple[BaseException, Ending]:
    """Return the error and the ending of an attempt that raised as it was asked to end."""
    if not is_late:
        return remote_error(ended.error_class, ended.error_message), Ending.FAILED
    text = f"it ran past its timeout, then {ended.error_class}: {ended.error_message}"
    return TimeoutError(text), Ending.TIMED_OUT
