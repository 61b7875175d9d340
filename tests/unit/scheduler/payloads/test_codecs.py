"""A chain of payload codecs: what stands in envelopes, and what they are bound to."""

import json
from typing import Any

import pytest
from pydantic import JsonValue

from actors.model.codec import encode_data
from actors.model.errors import (
    InvalidTask,
    PayloadDamaged,
    PayloadSealed,
    PayloadUnavailable,
    SettingsInvalid,
)
from actors.model.sealed import MEMBER, is_sealed
from actors.model.task import Task
from scheduler.payloads.aes_gcm import AesGcm
from scheduler.payloads.codec import EncodedPayload
from scheduler.payloads.codecs import PayloadCodecs
from scheduler.payloads.deflate import Deflate
from tests.builders import a_task

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
    envelope = task.data[MEMBER]
    assert isinstance(envelope, dict)
    steps = envelope["steps"]
    assert isinstance(steps, list)
    return steps


def test_what_was_sealed_is_opened_as_it_was() -> None:
    """Through all codecs, and only the envelope is in the record."""
    payloads = PayloadCodecs(Reversed(), Deflate(), AesGcm(NEW))
    sealed = payloads.sealed(a_task(data=SECRET, kind="mail"))

    assert list(sealed.data) == [MEMBER] and is_sealed(encode_data(sealed))
    assert [each["codec"] for each in _steps(sealed)] == ["reversed", "deflate", "aes-gcm"]
    assert b"4111" not in encode_data(sealed)
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
    """A reschedule and a run-now write the row anew, without opening it."""
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

    assert _steps(rotated.sealed(a_task())) == [{"codec": "aes-gcm", "key": "2026"}]
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
        payloads.require(encode_data(sealed))
    with pytest.raises(PayloadSealed):
        payloads.opened(sealed)


def test_members_left_in_the_clear_do_not_change_what_is_opened() -> None:
    """A limit reads them; the user's code gets what was encrypted."""
    payloads = PayloadCodecs(AesGcm(NEW), plain=["tenant"])
    sealed = payloads.sealed(a_task(data={"tenant": "a", **SECRET}))
    changed = sealed.model_copy(update={"data": {**sealed.data, "tenant": "b"}})

    assert sealed.data["tenant"] == "a" and list(sealed.data) == [MEMBER, "tenant"]
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

    with pytest.raises(PayloadDamaged):
        payloads.opened(a_task(data={MEMBER: envelope}))


def test_a_users_data_cannot_look_sealed() -> None:
    """The member's name is reserved."""
    with pytest.raises(InvalidTask, match="reserved"):
        PayloadCodecs(AesGcm(NEW)).sealed(a_task(data={MEMBER: 1}))


def test_a_codec_that_fails_refuses_the_task() -> None:
    """The producer hears which one, and why; nothing is scheduled in the clear."""
    with pytest.raises(PayloadUnavailable, match="reversed failed: OSError: no route"):
        PayloadCodecs(Failing()).sealed(a_task())


def test_codecs_are_told_apart_by_name() -> None:
    """An envelope finds its codecs by it."""
    with pytest.raises(SettingsInvalid, match="two payload codecs have the name deflate"):
        PayloadCodecs(Deflate(), reads=[Deflate()])
    nameless: Any = object()
    with pytest.raises(SettingsInvalid, match="not the name of a payload codec"):
        PayloadCodecs(nameless)
    with pytest.raises(SettingsInvalid, match="plain is a list of names"):
        PayloadCodecs(Deflate(), plain="tenant")


def test_no_text_of_the_codecs_shows_a_key() -> None:
    """They stand in logs and traces."""
    shown = repr(PayloadCodecs(AesGcm(NEW))) + repr(AesGcm(NEW)) + str(vars(AesGcm(NEW)))

    assert "2026" in shown and NEW["2026"].hex() not in shown
    assert json.dumps(list(NEW["2026"]))[1:9] not in shown and repr(NEW["2026"])[3:20] not in shown
