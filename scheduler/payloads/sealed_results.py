"""The values that tasks end with, sealed on their way to the store.

Decides where codecs are called: by the worker that ran the task, behind all user code of it, and
never on an event loop where one may wait.
"""

import asyncio
from collections.abc import Awaitable

from hourhand.actors.model.execution.batch_executor import BatchOutcome
from hourhand.actors.model.execution.outcome import Done, Outcome, SealedDone
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.task.task_result import result_text
from hourhand.scheduler.payloads.codecs import PayloadCodecs


def has_value(outcome: object) -> bool:
    """True for a ``Done`` with a value that is not sealed yet."""
    return isinstance(outcome, Done) and outcome.value is not None


def sealed_outcome(payloads: PayloadCodecs, task: Task, outcome: Outcome | None) -> Outcome | None:
    """Return an outcome with its value sealed; raises what sealing does, and InvalidResult."""
    if not isinstance(outcome, Done) or outcome.value is None:
        return outcome
    return SealedDone(text=payloads.sealed_result(result_text(outcome.value), task))


async def sealed_outcome_async(
    payloads: PayloadCodecs, task: Task, awaited: Awaitable[Outcome | None]
) -> Outcome | None:
    """Await an outcome, and return it as ``sealed_outcome`` does."""
    outcome = await awaited
    if payloads.blocks and has_value(outcome):
        return await asyncio.to_thread(sealed_outcome, payloads, task, outcome)
    return sealed_outcome(payloads, task, outcome)


def sealed_or_failed(payloads: PayloadCodecs, task: Task, outcome: BatchOutcome) -> BatchOutcome:
    """Return the outcome of one task of a batch with its value sealed, or what sealing raises."""
    if isinstance(outcome, BaseException):
        return outcome
    try:
        return sealed_outcome(payloads, task, outcome)
    except BaseException as error:  # noqa: BLE001 - a codec is user code
        return error
