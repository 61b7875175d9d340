"""Sealed data opens as it was, for any data and ids, and as no other task's."""

from base64 import b64decode, b64encode
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import JsonValue

from hourhand.actors.model.task.codec import decode_record, encode_task
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.sealed import MEMBER, SealedMembers, envelope_in
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.values.errors import PayloadDamaged
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.payloads.aes_gcm import AesGcm
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.payloads.deflate import Deflate
from tests.builders import a_record
from tests.property.strategies import json_objects, keys, storable_text

CHAINS = [
    PayloadCodecs(Deflate()),
    PayloadCodecs(AesGcm({"k1": bytes(32)}), plain=["tenant"]),
    PayloadCodecs(Deflate(9), AesGcm({"k1": bytes(16), "k0": bytes(24)})),
]
kinds = st.sampled_from([None, "mail", "a.b/c"])


def _task(key: TaskKey, data: dict[str, JsonValue], kind: str | None) -> Task:
    return Task(
        ordering_id=key.ordering_id,
        scheduled_time=from_millis(key.scheduled_ms),
        uniqueness_key=key.uniqueness_key,
        data=data,
        kind=kind,
    )


@given(st.sampled_from(CHAINS), keys, json_objects, kinds)
def test_what_went_through_a_record_is_opened_as_it_was(
    payloads: PayloadCodecs, key: TaskKey, data: dict[str, JsonValue], kind: str | None
) -> None:
    """The whole way: sealed, encoded, stored, read, opened."""
    task = _task(key, data, kind)

    row = decode_record(a_record(value=encode_task(payloads.sealed(task))))

    assert isinstance(row, StoredTask) and row.kind == kind
    payloads.require(row.body)
    assert payloads.opened(row.to_task()) == task


@given(keys, keys, json_objects, kinds, kinds)
def test_no_other_task_opens_it(
    key: TaskKey,
    other: TaskKey,
    data: dict[str, JsonValue],
    kind: str | None,
    other_kind: str | None,
) -> None:
    """Whichever of ordering id, uniqueness key and kind differs."""
    assume((key[1:], kind) != (other[1:], other_kind))
    payloads = CHAINS[1]
    sealed = payloads.sealed(_task(key, data, kind))

    with pytest.raises(PayloadDamaged):
        payloads.opened(_task(other, {}, other_kind).model_copy(update={"data": sealed.data}))


def test_ids_do_not_run_into_each_other() -> None:
    """Where one ends is part of what data is bound to."""
    payloads = CHAINS[1]
    sealed = payloads.sealed(_task(TaskKey(0, "ab", "c"), {"card": 1}, None))

    for ids in (("a", "bc"), ("abc", "")):
        other = _task(TaskKey(0, *ids), {}, None)
        with pytest.raises(PayloadDamaged):
            payloads.opened(other.model_copy(update={"data": sealed.data}))


@given(keys, json_objects, st.integers(0, 2**30), st.integers(1, 255))
def test_every_change_of_an_envelope_is_damage(
    key: TaskKey, data: dict[str, JsonValue], place: int, change: int
) -> None:
    """Of any byte, and never another error."""
    payloads = CHAINS[2]
    sealed = payloads.sealed(_task(key, data, None))
    envelope = envelope_in(sealed.data)
    assert envelope is not None
    raw = bytearray(b64decode(envelope.data))
    raw[place % len(raw)] ^= change
    changed = SealedMembers({}, replace(envelope, data=b64encode(raw).decode()))

    with pytest.raises(PayloadDamaged):
        payloads.opened(sealed.model_copy(update={"data": changed}))


@given(storable_text | st.dictionaries(storable_text, st.integers()))
def test_an_envelope_of_anything_is_damage(envelope: Any) -> None:
    """What another producer wrote raises nothing else; as a member of the data it is data."""
    plain = _task(TaskKey(0, "o", "u"), {MEMBER: envelope}, None)
    record = msgspec.json.decode(encode_task(_task(TaskKey(0, "o", "u"), {}, None)))
    row = decode_record(a_record(value=msgspec.json.encode({**record, "seal": {"is": envelope}})))

    assert isinstance(row, StoredTask)
    with pytest.raises(PayloadDamaged):
        CHAINS[2].opened(row.to_task())
    assert CHAINS[2].opened(plain) is plain
