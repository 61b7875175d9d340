"""A chain of payload codecs: what stands in envelopes, and what they are bound to."""

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from pydantic import JsonValue

from hourhand.actors.model.task.codec import decode_record, encode_task
from hourhand.actors.model.task.sealed import MEMBER, SealedMembers, envelope_in, is_sealed
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.values.errors import (
    PayloadDamaged,
    PayloadSealed,
    PayloadUnavailable,
    PoisonRecord,
    SettingsInvalid,
)
from hourhand.scheduler.payloads.aes_gcm import AesGcm
from hourhand.scheduler.payloads.codec import EncodedPayload
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.payloads.deflate import Deflate
from tests.builders import a_record, a_task

OLD, NEW = {"2025": bytes(range(32))}, {"2026": bytes(range(1, 33))}
SECRET: dict[str, JsonValue] = {"card": "4111-1111", "note": "x" * 500}


class Reversed:
    """A codec of a user's own."""

    name = "reversed"
    blocks = False

    def knows(self, key_id: str | None) -> bool:
        return key_id is None

    def encode(self, data: bytes, bound_to: bytes) -> EncodedPayload | None:
        return EncodedPayload(data[::-1])

    def decode(self, data: bytes, key_id: str | None, bound_to: bytes) -> bytes:
        return data[::-1]


class Failing(Reversed):
    """A codec that cannot reach what it needs."""

    def encode(self, data: bytes, bound_to: bytes) -> EncodedPayload | None:
        raise OSError("no route to the key store")


def _steps(task: Task) -> list[Any]:
    envelope = envelope_in(task.data)
    assert envelope is not None
    return [(each.codec, each.key) for each in envelope.steps]


def _row(task: Task) -> StoredTask:
    row = decode_record(a_record(value=encode_task(task)))
    assert isinstance(row, StoredTask)
    return row


def test_what_was_sealed_is_opened_as_it_was() -> None:
    """Through all codecs, and only the envelope is in the record."""
    payloads = PayloadCodecs(Reversed(), Deflate(), AesGcm(NEW))
    sealed = payloads.sealed(a_task(data=SECRET, kind="mail"))

    record = json.loads(encode_task(sealed))
    assert record["taskData"] == {} and list(record)[-1] == "seal"
    assert is_sealed(_row(sealed).body) and _row(sealed).to_task() == sealed
    assert [codec for codec, _ in _steps(sealed)] == ["reversed", "deflate", "aes-gcm"]
    assert b"4111" not in encode_task(sealed)
    assert payloads.opened(sealed) == a_task(data=SECRET, kind="mail")


def test_plain_data_is_opened_as_it_is() -> None:
    """What was scheduled before there were codecs runs on."""
    payloads = PayloadCodecs(AesGcm(NEW))

    assert payloads.opened(a_task()) == a_task()


def test_data_that_every_codec_leaves_alone_stays_plain() -> None:
    """Compression of a few bytes makes them more."""
    assert PayloadCodecs(Deflate()).sealed(a_task()).data == a_task().data


@pytest.mark.parametrize(
    "other",
    [
        a_task(ordering_id="customer-8", kind="mail"),
        a_task(uniqueness_key="invoice-43", kind="mail"),
        a_task(kind="print"),
        a_task(),
    ],
)
def test_sealed_data_of_one_task_is_not_another_ones(other: Task) -> None:
    """The ids and the kind are what it was encrypted with."""
    payloads = PayloadCodecs(AesGcm(NEW))
    sealed = payloads.sealed(a_task(data=SECRET, kind="mail"))

    with pytest.raises(PayloadDamaged, match="sealed for another task"):
        payloads.opened(other.model_copy(update={"data": sealed.data}))


def test_a_task_that_is_moved_keeps_its_data() -> None:
    """A reschedule and a run-now write the row again, without opening it."""
    payloads = PayloadCodecs(AesGcm(NEW))
    sealed = payloads.sealed(a_task(due_in_ms=1_000, data=SECRET))
    moved = a_task(due_in_ms=9_000).model_copy(update={"data": sealed.data})

    assert payloads.opened(moved).data == SECRET


def test_all_occurrences_of_a_schedule_share_its_data() -> None:
    """And no task that is not one of them has it."""
    payloads = PayloadCodecs(AesGcm(NEW))
    data = payloads.sealed_recurring(SECRET, "nightly", "mail")

    for unique in ("nightly@2026-01-01T00:00:00.000Z", "nightly@2026-01-02T00:00:00.000Z!"):
        assert payloads.opened_data(data, "any", unique, "mail") == SECRET
    for unique, kind in (("weekly@2026-01-01", "mail"), ("nightly", "mail"), ("nightly@x", None)):
        with pytest.raises(PayloadDamaged):
            payloads.opened_data(data, "any", unique, kind)


def test_a_new_key_seals_and_the_old_one_still_opens() -> None:
    """A rotation: the new key goes first."""
    before = PayloadCodecs(AesGcm(OLD)).sealed(a_task(data=SECRET))
    rotated = PayloadCodecs(AesGcm({**NEW, **OLD}))

    assert _steps(rotated.sealed(a_task())) == [("aes-gcm", "2026")]
    assert rotated.opened(before).data == SECRET


def test_a_codec_that_only_reads_seals_nothing() -> None:
    """The way back to plain data."""
    before = PayloadCodecs(AesGcm(OLD)).sealed(a_task(data=SECRET))
    reading = PayloadCodecs(reads=[AesGcm(OLD)])

    assert not reading.seals and reading.sealed(a_task()).data == a_task().data
    assert reading.opened(before).data == SECRET


@pytest.mark.parametrize(
    ("payloads", "lacks"),
    [(PayloadCodecs(Deflate()), "codec"), (PayloadCodecs(AesGcm(NEW)), "key")],
)
def test_what_is_missing_is_named(payloads: PayloadCodecs, lacks: str) -> None:
    """The id of the key that is needed, by which an operator finds it."""
    sealed = PayloadCodecs(AesGcm(OLD)).sealed(a_task(data=SECRET))

    with pytest.raises(
        PayloadSealed, match=rf"key id '2025'\), and this process has no such {lacks}"
    ):
        payloads.require(_row(sealed).body)
    with pytest.raises(PayloadSealed):
        payloads.opened(sealed)


def test_members_left_in_the_clear_do_not_change_what_is_opened() -> None:
    """A limit reads them; the user's code gets what was encrypted."""
    payloads = PayloadCodecs(AesGcm(NEW), plain=["tenant"])
    sealed = payloads.sealed(a_task(data={"tenant": "a", **SECRET}))
    changed = sealed.model_copy(
        update={"data": SealedMembers({"tenant": "b"}, envelope_in(sealed.data))}
    )

    assert sealed.data == {"tenant": "a"} and _row(sealed).data == b'{"tenant":"a"}'
    assert payloads.opened(changed).data == {"tenant": "a", **SECRET}


@pytest.mark.parametrize(
    "envelope",
    [
        None,
        {},
        {"steps": [], "data": "not base64!"},
        {"steps": [], "data": "AAEC"},
        {"steps": [{"codec": "deflate"}], "data": "AAEC"},
        {"steps": [{"codec": "aes-gcm", "key": "2026"}], "data": ""},
        {"steps": [{"codec": "aes-gcm", "key": "2026"}], "data": "AAEC"},
    ],
)
def test_an_envelope_that_makes_no_sense_is_damaged(envelope: Any) -> None:
    """Never an error of another kind, which would be tried again."""
    payloads = PayloadCodecs(Deflate(), AesGcm(NEW))

    record = json.loads(encode_task(a_task()))
    row = decode_record(a_record(value=json.dumps({**record, "seal": envelope}).encode()))

    assert isinstance(row, StoredTask)
    if envelope is None:
        assert payloads.opened(row.to_task()) == a_task()
        return
    with pytest.raises(PayloadDamaged):
        payloads.opened(row.to_task())
    # As a member of the data it is data.
    plain = a_task(data={MEMBER: envelope})
    assert payloads.opened(plain) is plain


def test_data_that_looks_sealed_is_sealed_as_all_other() -> None:
    """The member's name is nothing to data."""
    payloads = PayloadCodecs(AesGcm(NEW))
    task = a_task(data={MEMBER: {"steps": [], "data": ""}})

    assert payloads.opened(_row(payloads.sealed(task)).to_task()) == task


def test_a_record_has_a_seal_or_a_member_of_its_name() -> None:
    """Of both nothing tells which one is meant."""
    payloads = PayloadCodecs(AesGcm(NEW))
    record = json.loads(encode_task(payloads.sealed(a_task())))
    record["taskData"] = {MEMBER: record["seal"]}

    with pytest.raises(PoisonRecord, match=f'taskData has the member "{MEMBER}" beside a seal'):
        decode_record(a_record(value=json.dumps(record).encode()))


@pytest.mark.parametrize("bound", ["task", "recurring"])
def test_what_a_version_before_sealed_with_a_key_is_opened(bound: str) -> None:
    """It had the envelope as the first member of the data, in records, rows and schedules."""
    payloads = PayloadCodecs(Deflate(), AesGcm(OLD), plain=["card"])
    unique = "nightly@2026-01-01T00:00:00.000Z"
    task = a_task(data=SECRET, uniqueness_key=unique)
    sealed: Any = payloads.sealed(task).data
    if bound == "recurring":
        sealed = payloads.sealed_recurring(SECRET, "nightly", None)
    before = {MEMBER: msgspec.to_builtins(envelope_in(sealed)), "card": "4111-1111"}

    row = _row(task.model_copy(update={"data": before}))
    old_row = replace(row, body=msgspec.json.encode(before))

    assert payloads.opened(row.to_task()) == task and not is_sealed(row.body)
    assert payloads.opened(old_row.to_task()) == task and is_sealed(old_row.body)


@pytest.mark.parametrize(
    "payloads", [PayloadCodecs(reads=[Deflate()]), PayloadCodecs(reads=[Deflate(), AesGcm(NEW)])]
)
def test_nothing_without_a_key_of_ours_is_opened_as_of_a_version_before(
    payloads: PayloadCodecs,
) -> None:
    """Anybody can compress, and name a key."""
    squeezed: Any = PayloadCodecs(Deflate()).sealed(a_task(data=SECRET)).data
    keyed: Any = PayloadCodecs(AesGcm(OLD)).sealed(a_task(data=SECRET)).data

    for sealed in (squeezed, keyed):
        task = a_task(data={MEMBER: msgspec.to_builtins(envelope_in(sealed))})
        assert payloads.opened(_row(task).to_task()) == task


def test_a_codec_that_fails_refuses_the_task() -> None:
    """The producer hears which one, and why; nothing is scheduled in the clear."""
    with pytest.raises(PayloadUnavailable, match="reversed failed: OSError: no route"):
        PayloadCodecs(Failing()).sealed(a_task())


@pytest.mark.parametrize(
    "encoded",
    [
        b"plain bytes",
        (b"a tuple", None),
        EncodedPayload("text"),  # type: ignore[arg-type]
        EncodedPayload(b"", 7),  # type: ignore[arg-type]
        EncodedPayload(b"", "\ud800"),
    ],
)
def test_what_a_codec_gives_and_nobody_would_open_refuses_the_task(encoded: Any) -> None:
    """The producer hears it; else the task would fail when it runs, as damaged."""

    class Odd(Reversed):
        def encode(self, data: bytes, bound_to: bytes) -> EncodedPayload | None:
            odd: EncodedPayload = encoded
            return odd

    with pytest.raises(PayloadUnavailable, match="the payload codec reversed failed: "):
        PayloadCodecs(Odd()).sealed(a_task())


def test_a_codec_that_decodes_to_something_else_is_named() -> None:
    """Its author has to mend it: the data is not damaged."""

    class Odd(Reversed):
        def decode(self, data: bytes, key_id: str | None, bound_to: bytes) -> bytes:
            odd: Any = None
            return odd  # type: ignore[no-any-return]

    sealed = PayloadCodecs(Reversed()).sealed(a_task(data=SECRET))
    with pytest.raises(TypeError, match="the payload codec reversed decodes to bytes, got None"):
        PayloadCodecs(Odd()).opened(_row(sealed).to_task())


def test_codecs_are_told_apart_by_name() -> None:
    """An envelope finds its codecs by it."""
    with pytest.raises(SettingsInvalid, match="two payload codecs have the name deflate"):
        PayloadCodecs(Deflate(), reads=[Deflate()])
    nameless: Any = object()
    with pytest.raises(SettingsInvalid, match="not the name of a payload codec"):
        PayloadCodecs(nameless)
    with pytest.raises(SettingsInvalid, match="which rows have for sealed data"):
        PayloadCodecs(Deflate(), plain=[MEMBER])
    with pytest.raises(SettingsInvalid, match="plain is a list of names"):
        PayloadCodecs(Deflate(), plain="tenant")


def test_no_text_of_the_codecs_shows_a_key() -> None:
    """They stand in logs and traces."""
    shown = repr(PayloadCodecs(AesGcm(NEW))) + repr(AesGcm(NEW)) + str(vars(AesGcm(NEW)))

    assert "2026" in shown and NEW["2026"].hex() not in shown
    assert json.dumps(list(NEW["2026"]))[1:9] not in shown and repr(NEW["2026"])[3:20] not in shown
