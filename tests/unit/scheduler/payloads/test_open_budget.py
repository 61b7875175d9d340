"""Opened data is bounded: each by a size, and all that is open at once on a node by a budget."""

import threading
import zlib
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from hourhand.actors.model.task.sealed import SealedData, SealedMembers, SealingStep, envelope_in
from hourhand.actors.model.values.errors import (
    PayloadDamaged,
    PayloadUnavailable,
    SettingsInvalid,
    TaskTooLarge,
)
from hourhand.scheduler.payloads.aes_gcm import AesGcm
from hourhand.scheduler.payloads.claim_check import ClaimCheck
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.payloads.deflate import Deflate
from hourhand.scheduler.payloads.open_budget import SMALL_BYTES, NoRoom, OpenBudget, OpenedHere
from tests.builders import a_task

TIMEOUT_S = 5
TEXT = "x" * (2 * SMALL_BYTES)
LARGE: dict[str, JsonValue] = {"text": TEXT}
KEYS = {"k1": bytes(32)}


def bomb(times: int = 1) -> SealedMembers:
    """Return few bytes that stand for 40 MB, packed so many times."""
    data = b'{"a":[' + b"0," * 20_000_000 + b"0]}"
    for _ in range(times):
        data = zlib.compress(data, 9)
    steps = [SealingStep("deflate")] * times
    return SealedMembers({}, SealedData(steps, b64encode(data).decode()))


@pytest.mark.parametrize("times", [1, 2])
def test_few_bytes_that_stand_for_many_are_never_unpacked(times: int) -> None:
    """The message says which limit it is, and whose fault."""
    task = a_task().model_copy(update={"data": bomb(times)})

    with pytest.raises(PayloadDamaged, match=r"more than 16777216 bytes .* its producer sealed it"):
        PayloadCodecs(Deflate()).opened(task)


def test_nobody_seals_what_no_node_would_open() -> None:
    """The client says so, before anything is sent."""
    payloads = PayloadCodecs(Deflate(), opened_bytes_max=1_000)

    with pytest.raises(TaskTooLarge, match=r"opened_bytes_max of PayloadCodecs is 1000"):
        payloads.sealed(a_task(data=LARGE))
    assert payloads.opened(payloads.sealed(a_task(data={"a": "x" * 900}))).data["a"] == "x" * 900


@pytest.mark.parametrize("codec", [Deflate(), AesGcm(KEYS)])
def test_the_bound_holds_whichever_codec_it_is(codec: Any) -> None:
    """One that cannot keep to a size while it decodes is looked at afterwards."""
    sealed = PayloadCodecs(codec).sealed(a_task(data=LARGE))

    assert PayloadCodecs(codec).opened(sealed).data == LARGE
    with pytest.raises(PayloadDamaged, match="more than 1000 bytes"):
        PayloadCodecs(codec, opened_bytes_max=1_000).opened(sealed)


def test_what_is_claimed_is_not_fetched_when_it_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store says its size before."""
    claims = ClaimCheck(f"file://{tmp_path}", threshold_bytes=10)
    sealed = PayloadCodecs(claims).sealed(a_task(data=LARGE))
    fetched: list[str] = []
    monkeypatch.setattr(claims._files, "cat_file", fetched.append)

    with pytest.raises(PayloadDamaged, match="more than 1000 bytes"):
        PayloadCodecs(claims, opened_bytes_max=1_000).opened(sealed)
    assert fetched == []


def test_who_has_nothing_open_waits_for_room_and_who_has_some_is_told() -> None:
    """Two that wait for each other would wait for ever."""
    budget = OpenBudget(100)
    began, opened = threading.Event(), threading.Event()

    def open_more() -> None:
        began.set()
        with OpenedHere(budget) as here:
            assert here.take(60)
            opened.set()

    with OpenedHere(budget) as here:
        assert here.take(60) and not here.take(60) and here.take(40)
        other = threading.Thread(target=open_more)
        other.start()
        assert began.wait(TIMEOUT_S) and not opened.is_set() and budget.open_bytes == 100
    assert opened.wait(TIMEOUT_S)
    other.join(TIMEOUT_S)
    assert budget.open_bytes == 0


def test_what_is_larger_than_the_budget_is_opened_alone() -> None:
    """Or it would never be."""
    budget = OpenBudget(100)

    with OpenedHere(budget) as here:
        assert here.take(500) and not budget.take(1, waits=False)


def test_large_data_is_counted_for_as_long_as_it_is_open() -> None:
    """Small data is not, and a reader's without an attempt is bounded alone."""
    payloads = PayloadCodecs(AesGcm(KEYS), open_bytes_max=len(TEXT) + 100)
    large, small = payloads.sealed(a_task(data=LARGE)), payloads.sealed(a_task(data={"a": 1}))

    with OpenedHere(payloads.budget) as here:
        payloads.opened(small, here)
        assert payloads.budget.open_bytes == 0
        payloads.opened(large, here)
        assert payloads.budget.open_bytes > len(TEXT)
        with pytest.raises(NoRoom):
            payloads.opened(large, here)
        payloads.opened(small, here)
    assert payloads.opened(large).data == LARGE and payloads.budget.open_bytes == 0


def test_sealing_that_is_required_is_not_left_out() -> None:
    """Where no codec seals small data, and where there is none."""
    with pytest.raises(PayloadUnavailable, match="add a codec that seals all data"):
        PayloadCodecs(Deflate(), required=True).sealed(a_task())
    assert envelope_in(PayloadCodecs(Deflate(), required=["mail"]).sealed(a_task()).data) is None
    for required in (True, "mail", ["mail"]):
        with pytest.raises(SettingsInvalid, match="required is true or a list of kinds"):
            PayloadCodecs(reads=[Deflate()], required=required)
    for sizes in ({"opened_bytes_max": 0}, {"open_bytes_max": True}):
        with pytest.raises(SettingsInvalid, match="1 or more bytes are needed"):
            PayloadCodecs(**sizes)
