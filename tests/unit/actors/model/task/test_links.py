"""Links: their place in a record and in a row, and the ends that bring a follower."""

import msgspec
import pytest
from pydantic import JsonValue

from hourhand.actors.model.task.codec import decode_record, encode_task, letter_of
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.links import (
    Links,
    Then,
    brings,
    ended_of,
    follower_record,
    with_then,
)
from hourhand.actors.model.task.sealed import SealedData, SealedMembers, SealingStep
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.task.trace import TRACEPARENT
from hourhand.actors.model.values.errors import PayloadSealed, PoisonRecord
from hourhand.testing import TaskEnd
from tests.builders import a_completion, a_record, a_task

FOLLOWER = a_task(ordering_id="b", uniqueness_key="f", data={"hourhand.kind": "x", "n": [1]})
CONTEXT = b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01"
PLAIN: dict[str, JsonValue] = {
    "a": 1,
    "hourhand.links": [3, "{}"],
    "b": {"hourhand.expires": "PT1S"},
}
SEALED = SealedMembers({"tenant": "x"}, SealedData([SealingStep("deflate")], "AA=="))
TASKS = {
    "plain": a_task(data=PLAIN),
    "empty": a_task(data={}),
    "all members": a_task(data=PLAIN, kind="mail", priority=-7),
    "sealed": a_task(kind="mail").model_copy(update={"data": SEALED}),
}


def _row(task: Task, *, traced: bool = False) -> StoredTask:
    record = a_record(value=with_then(encode_task(task), encode_task(FOLLOWER), "any"))
    headers = ((TRACEPARENT, CONTEXT),) if traced else ()
    row = decode_record(msgspec.structs.replace(record, headers=headers))
    assert isinstance(row, StoredTask)
    return row


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("name", TASKS)
def test_p29_links_stand_beside_everything_else_of_a_row(name: str, *, traced: bool) -> None:
    """Data, kind and priority are read as if there were none, and the record is found again."""
    task = TASKS[name]
    row, bare = _row(task, traced=traced), decode_record(a_record(value=encode_task(task)))

    assert isinstance(bare, StoredTask)
    assert (row.kind, row.priority, row.data) == (bare.kind, bare.priority, bare.data)
    assert row.to_task().data == bare.to_task().data
    assert row.links is not None and row.links.then is not None
    assert (row.links.then.key, row.links.then.on) == (FOLLOWER.key, "any")
    letter = letter_of(row, 0, 0)
    again = decode_record(letter)
    assert isinstance(again, StoredTask) and again.links == row.links
    assert again.to_task() == row.to_task() and again.kind == row.kind
    assert bool(letter.headers) is traced


@pytest.mark.parametrize("name", TASKS)
def test_p29_the_version_before_holds_a_row_with_links(name: str) -> None:
    """The last kind that it finds is one that no node has."""
    text = _row(TASKS[name]).body

    assert text.endswith(b'"hourhand.kind":"hourhand:linked"}')
    with pytest.raises(PoisonRecord, match="Hourhand's own"):
        decode_record(a_record(value=b'%b,"kind":"hourhand:linked"}' % encode_task(FOLLOWER)[:-1]))


def test_p29_a_follower_is_told_one_end_and_keeps_its_own_follower() -> None:
    """As a record of another producer may have it."""
    last = a_task(ordering_id="c")
    then = Then(msgspec.Raw(with_then(encode_task(FOLLOWER), encode_task(last), "success")), "any")
    completion = a_completion(result=CompletionResult.FAILURE, reason="r" * 600)

    row = decode_record(a_record(value=follower_record(then, ended_of(completion))))

    assert isinstance(row, StoredTask) and row.links is not None and row.links.then is not None
    assert row.links.then.key == last.key
    (end,) = row.to_task().after
    assert (end.key, end.state, end.reason) == (completion.key, "failure", "r" * 500)
    assert end.result is None and row.to_task().data == FOLLOWER.data


def test_p29_a_report_of_each_end_has_a_key_of_its_own() -> None:
    """A task of Hourhand's own: else one that fails and is retried would report once."""
    own = encode_task(FOLLOWER).replace(b'"b"', b'"hourhand:group:1"', 1)
    keys = {
        msgspec.json.decode(
            follower_record(Then(msgspec.Raw(own)), ended_of(a_completion(result=result)))
        )["uniquenessKey"]
        for result in (CompletionResult.SUCCESS, CompletionResult.FAILURE)
    }
    assert len(keys) == 2


def test_p29_a_follower_whose_links_are_null_has_none() -> None:
    """As any record may write that; what is accepted can be sent."""
    own = b'%b,"links":null}' % encode_task(FOLLOWER)[:-1]

    row = decode_record(a_record(value=with_then(encode_task(a_task()), own, "any")))
    assert isinstance(row, StoredTask) and row.links is not None and row.links.then is not None
    sent = decode_record(a_record(value=follower_record(row.links.then, ended_of(a_completion()))))

    assert isinstance(sent, StoredTask) and sent.links is not None
    assert sent.links.then is None and len(sent.links.after) == 1


@pytest.mark.parametrize("result", CompletionResult)
def test_p29_moved_and_reopened_are_no_ends(result: CompletionResult) -> None:
    """Every other result is one of ``any``."""
    is_end = result not in (CompletionResult.MOVED, CompletionResult.REOPENED)

    assert brings(Then(msgspec.Raw(b"{}"), "any"), result) is is_end
    assert brings(Then(msgspec.Raw(b"{}")), result) is (result is CompletionResult.SUCCESS)


@pytest.mark.parametrize(
    "links",
    [
        b"[]",
        b'{"then":1}',
        b'{"then":{"on":"never","task":{}}}',
        b'{"then":{"task":{"orderingId":""}}}',
        b'{"then":{"task":{"orderingId":"a","uniquenessKey":"b","command":"cancel"}}}',
        (
            b'{"then":{"task":{"orderingId":"a","uniquenessKey":"b",'
            b'"scheduledTime":"2026-01-01T00:00:00Z","\xff":1}}}'
        ),
        b'{"after":[{"key":"x","state":"success","finished":"2026-01-01T00:00:00Z"}]}',
        (
            b'{"after":[{"key":"2026-01-01T00:00:00.000Z,a,b","state":"?",'
            b'"finished":"2026-01-01T00:00:00Z"}]}'
        ),
    ],
)
def test_p10_links_that_cannot_be_read_are_poison(links: bytes) -> None:
    """With the task that they are of."""
    value = b'%b,"links":%b}' % (encode_task(a_task())[:-1], links)
    with pytest.raises(PoisonRecord):
        decode_record(a_record(value=value))


def test_a_sealed_result_is_refused_without_codecs() -> None:
    """And read as any other where it is plain."""
    key = TaskKey(0, "a", "b")
    sealed = b'{"hourhand.sealed":{"steps":[],"data":""}}'

    assert TaskEnd(
        key=key, state="success", finished_ms=0, result_text=b'{"value":[1]}'
    ).result == [1]
    with pytest.raises(PayloadSealed):
        _ = TaskEnd(key=key, state="success", finished_ms=0, result_text=sealed).result
    assert Links() == Links()
