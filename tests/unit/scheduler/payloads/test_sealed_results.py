"""Values that tasks with sealed data end with: sealed as well, bound to their task, by workers."""

import asyncio
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hourhand import Done, Hourhand, RetryPolicy, Task
from hourhand.actors.model.execution.batch_executor import BatchExecutor, BatchOutcome
from hourhand.actors.model.task.sealed import is_sealed
from hourhand.actors.model.task.task_result import result_text
from hourhand.actors.model.values.errors import InvalidResult, NoResult, PayloadDamaged
from hourhand.payloads import AesGcm, ClaimCheck, PayloadCodecs
from hourhand.scheduler.payloads.codec import EncodedPayload
from hourhand.scheduler.payloads.sealed_results import sealed_or_failed, sealed_outcome_async
from hourhand.scheduler.testing import VirtualScheduler
from tests.builders import a_task

CODECS = PayloadCodecs(AesGcm({"k1": bytes(32)}), plain=["value"])
TASK = a_task()
ONCE = RetryPolicy(attempts_max=1)


def _ids(task: Task = TASK) -> tuple[str, str]:
    return task.ordering_id, task.uniqueness_key


def test_nothing_of_it_stands_in_the_clear() -> None:
    """Members that data leaves in the clear are not those of a result."""
    text = CODECS.sealed_result(result_text("Zoë Example"), TASK)

    assert is_sealed(text) and b"Example" not in text and b"value" not in text
    assert CODECS.opened_result(text, *_ids()) == result_text("Zoë Example")


def test_it_is_its_tasks_alone_and_no_checkpoint() -> None:
    """Put in another place, it is refused; its task may have another time by then."""
    text = CODECS.sealed_result(result_text(1), TASK)

    with pytest.raises(PayloadDamaged):
        CODECS.opened_result(text, *_ids(a_task(uniqueness_key="other")))
    with pytest.raises(PayloadDamaged):
        CODECS.opened_checkpoint(text, TASK)
    later = TASK.model_copy(update={"scheduled_time": TASK.scheduled_time + timedelta(days=1)})
    assert CODECS.opened_result(text, *_ids(later)) == result_text(1)


class _Slow:
    """A codec that waits, and notes in which thread."""

    name, blocks = "slow", True

    def __init__(self) -> None:
        self.threads: list[int] = []

    def knows(self, key_id: str | None) -> bool:
        return key_id is None

    def encode(self, data: bytes, bound_to: bytes) -> EncodedPayload:
        del bound_to
        self.threads.append(threading.get_ident())
        return EncodedPayload(data)

    def decode(self, data: bytes, key_id: str | None, bound_to: bytes) -> bytes:
        del key_id, bound_to
        return data


def test_what_may_wait_is_sealed_beside_the_loop() -> None:
    """And nothing is, where there is no value."""
    slow = _Slow()

    async def main(value: object) -> object:
        async def done() -> Done:
            return Done(value)

        return await sealed_outcome_async(PayloadCodecs(slow), TASK, done())

    assert asyncio.run(main(None)) == Done()
    asyncio.run(main(1))
    assert slow.threads and threading.get_ident() not in slow.threads


def test_a_value_that_cannot_be_sealed_fails_its_task_alone() -> None:
    """An outcome of its batch; the others are sealed."""
    failed = sealed_or_failed(CODECS, TASK, Done({1}))

    assert isinstance(failed, InvalidResult)
    assert sealed_or_failed(CODECS, TASK, failed) is failed
    with pytest.raises(InvalidResult, match="opened_bytes_max"):
        PayloadCodecs(AesGcm({"k": bytes(32)}), opened_bytes_max=10).sealed_result(
            result_text("x" * 20), TASK
        )


app = Hourhand()


@app.task("large", retry=ONCE)
def large(data: dict[str, int]) -> Done:
    """End with a text of so many characters."""
    return Done("x" * data["size"])


@app.executor("batched")
class Batched(BatchExecutor):
    """Ends each task with its own value."""

    retry = ONCE

    def execute_many(self, tasks: Sequence[Task]) -> Sequence[BatchOutcome]:
        """One of them may not be JSON."""
        return [Done({1} if each.data["bad"] else each.data["value"]) for each in tasks]


def _task(scheduler: VirtualScheduler, kind: str, number: int = 0, **data: Any) -> Task:
    at = scheduler.now + timedelta(minutes=1)
    return Task(
        ordering_id=f"c-{number}", scheduled_time=at, uniqueness_key="a", data=data, kind=kind
    )


def test_a_large_value_goes_through_the_claim_check(tmp_path: Path) -> None:
    """Above its threshold; without one it fails the attempt, which says so."""
    codecs = PayloadCodecs(ClaimCheck(tmp_path.as_uri(), threshold_bytes=50_000))
    with_claims, without = (
        VirtualScheduler(executors=app, payloads=codecs),
        VirtualScheduler(executors=app),
    )
    receipts = [
        each.client.schedule_task(_task(each, "large", size=100_000)).result(timeout=1)
        for each in (with_claims, without)
    ]

    assert with_claims.client.wait_result(receipts[0], timeout=600) == "x" * 100_000
    with pytest.raises(NoResult, match=r"100002 bytes.*ClaimCheck"):
        without.client.wait_result(receipts[1], timeout=600)


@pytest.mark.parametrize("payloads", [None, CODECS])
def test_each_task_of_a_batch_has_its_own(payloads: PayloadCodecs | None) -> None:
    """A wrong value fails its own task alone."""
    scheduler = VirtualScheduler(executors=app, payloads=payloads)
    tasks = [
        _task(scheduler, "batched", number, value=number, bad=number == 1) for number in range(3)
    ]
    receipts = [scheduler.client.schedule_task(each).result(timeout=1) for each in tasks]

    assert [scheduler.client.wait_result(receipts[at], timeout=600) for at in (0, 2)] == [0, 2]
    with pytest.raises(NoResult, match="is not JSON"):
        scheduler.client.wait_result(receipts[1], timeout=600)
