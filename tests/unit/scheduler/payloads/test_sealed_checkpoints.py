"""Checkpoints of tasks whose data is sealed: they are sealed as well, and bound to their task."""

import asyncio
from pathlib import Path

import pytest

from hourhand.actors.model.task.checkpoint_value import checkpoint_text, checkpoint_value
from hourhand.actors.model.task.sealed import is_sealed
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import PayloadDamaged, PayloadSealed
from hourhand.payloads import AesGcm, ClaimCheck, PayloadCodecs
from hourhand.scheduler.payloads.sealed_checkpoints import SealedCheckpoints
from tests.builders import a_task

CODECS = PayloadCodecs(AesGcm({"k1": bytes(32)}), plain=["value"])
TASK = a_task()


class Kept:
    """Checkpoints of one task, as a node keeps them."""

    def __init__(self, found: bytes | None = None) -> None:
        self.found = found
        self.snoozed = 0
        self.made: list[bytes] = []

    def make(self, text: bytes) -> None:
        self.made.append(text)


def _sealed(value: object, codecs: PayloadCodecs = CODECS, task: Task = TASK) -> bytes:
    kept = Kept()
    SealedCheckpoints(codecs, task, kept).make(checkpoint_text(value))
    (text,) = kept.made
    return text


def test_nothing_of_it_stands_in_the_clear() -> None:
    """Members that data leaves in the clear are not those of a checkpoint."""
    text = _sealed({"name": "Zoë Example"})

    assert is_sealed(text) and b"Example" not in text and b"value" not in text
    found = SealedCheckpoints(CODECS, TASK, Kept(text)).found
    assert checkpoint_value(found) == {"name": "Zoë Example"}


def test_it_is_its_tasks_alone() -> None:
    """Put in the place of another task's, it is refused."""
    other = SealedCheckpoints(CODECS, a_task(uniqueness_key="other"), Kept(_sealed(1)))

    with pytest.raises(PayloadDamaged):
        assert other.found


def test_a_node_without_its_key_says_so() -> None:
    """It is not taken for none."""
    elsewhere = PayloadCodecs(AesGcm({"k2": bytes(32)}))

    with pytest.raises(PayloadSealed, match="key"):
        assert SealedCheckpoints(elsewhere, TASK, Kept(_sealed(1))).found


def test_a_claim_check_keeps_none_elsewhere(tmp_path: Path) -> None:
    """Nothing would remove it there, and a checkpoint is small."""
    codecs = PayloadCodecs(ClaimCheck(tmp_path.as_uri(), threshold_bytes=10))

    text = _sealed("x" * 1_000, codecs)

    assert checkpoint_value(text) == "x" * 1_000
    assert list(tmp_path.iterdir()) == []


def test_what_may_wait_is_opened_beside_the_loop(tmp_path: Path) -> None:
    """And found at once from then on."""
    aes = AesGcm({"k1": bytes(32)})
    codecs = PayloadCodecs(aes, reads=[ClaimCheck(tmp_path.as_uri())])
    checkpoints = SealedCheckpoints(codecs, TASK, Kept(_sealed(5)))

    asyncio.run(checkpoints.open_before())

    assert codecs.blocks and checkpoint_value(checkpoints.found) == 5
