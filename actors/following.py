"""Sends the follower of a task that ends to the log.

Decides the way of a follower that the log refuses for its size: it goes without the result of the
task before it, and else to the dead letters.  Never decides whether there is a follower.
"""

from collections.abc import Sequence
from concurrent.futures import Future

from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.links import brings, ended_of, follower_record, ordering_id_of
from hourhand.actors.model.task.links_text import may_have_links
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import Completion
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.task.trace import TRACEPARENT, carried_context
from hourhand.actors.model.values.errors import TaskTooLarge
from hourhand.actors.ports.effects import Effects
from hourhand.actors.ports.log import Position


def followers_of(task: StoredTask, completion: Completion, result: bytes | None) -> list[bytes]:
    """Return the record of the follower that the end of a task brings, with the task's result and
    without; empty for nearly all tasks.
    """
    if not may_have_links(task.body):
        return []
    links = task.links
    if links is None or links.then is None or not brings(links.then, completion.result):
        return []
    results = (None,) if result is None else (result, None)
    return [follower_record(links.then, ended_of(completion, each)) for each in results]


def send_follower(
    effects: Effects, task: StoredTask, records: Sequence[bytes], now_ms: int
) -> "Future[Position]":
    """Append the first of these records that the log takes; the future resolves once it has one, or
    the last one as a dead letter.
    """
    assert records, "a follower has a record"
    ordering_id, answer = ordering_id_of(records[-1]), Future[Position]()
    partition = partition_of(ordering_id, effects.partition_count)
    context, left = carried_context(task.body), iter(records)
    headers = () if context is None else ((TRACEPARENT, context),)
    writer, key = effects.writer, ordering_id.encode()

    def put_aside() -> "Future[Position]":
        record = LogRecord(partition, task.offset, now_ms, key, records[-1], headers)
        return writer.dead_letter(
            record, f"the follower of {task.key} is larger than the log takes"
        )

    def take(sent: "Future[Position]") -> None:
        if answer.cancelled() or sent.cancelled():
            return
        error = sent.exception()
        if isinstance(error, TaskTooLarge):
            send()
        elif error is not None:
            answer.set_exception(error)
        elif answer.set_running_or_notify_cancel():
            answer.set_result(sent.result())

    def send() -> None:
        record = next(left, None)
        sent = put_aside() if record is None else writer.append(partition, key, record, headers)
        sent.add_done_callback(take)

    send()
    return answer
