"""Storage with Kafka alone under a virtual clock: crashes at every step, replaced owners."""

import pytest

from tests.unit.scheduler.kafka_only.bucket_world import TARGET, BucketWorld
from tests.unit.scheduler.kafka_only.transactional_log import PENDING

LETTERS = "letters"


@pytest.mark.parametrize("seed", range(15))
def test_nothing_is_lost_doubled_or_early(seed: int) -> None:
    """Whatever dies at whatever step, every message appears once, at its time or later."""
    world = BucketWorld(seed)
    for _ in range(12):
        for _ in range(world.rng.randrange(3, 12)):
            world.send(world.rng.choice((-50, 0, 30, 400, 990, 1_000, 1_700, 3_500, 9_000, 40_000)))
        if world.rng.random() < 0.2:
            world.split()
        world.run(world.rng.randrange(1_500))
    world.hazards = False
    world.run(60_000)

    world.judge()
    assert world.crashes


def test_messages_of_one_key_and_time_keep_their_order() -> None:
    """However far ahead they were accepted: through whichever buckets they came."""
    world = BucketWorld(7, hazards=False)
    due_ms = world.clock.now_ms() + 9_000
    for _ in range(60):
        world.send(due_ms - world.clock.now_ms(), key=b"k")
        world.run(world.rng.randrange(140))
    world.run(20_000)

    world.judge()
    arrived = [record.value for record, _ in world.log.arrivals(TARGET)]
    assert arrived == sorted(world.sent)


def test_a_healthy_owner_is_late_by_its_rounds_only() -> None:
    """A message is in its last owner's memory well before it is due."""
    world = BucketWorld(3, hazards=False)
    for _ in range(200):
        world.send(world.rng.randrange(300, 30_000))
    world.run(40_000)

    world.judge()
    for record, committed_ms in world.log.arrivals(TARGET):
        assert record.value is not None
        assert committed_ms - world.sent[record.value] <= 120


def test_what_no_target_can_take_is_put_aside() -> None:
    """The rest of its transaction goes on; the letter holds the message and the reason."""
    world = BucketWorld(5, hazards=False)
    world.log.refusing.add("nowhere")
    refused = world.send(500, key=b"k", topic="nowhere")
    del world.sent[refused]
    for _ in range(5):
        world.send(500)
    world.run(3_000)

    world.judge()
    ((letter, _),) = world.log.arrivals(LETTERS)
    assert (letter.key, letter.value) == (b"k", refused)
    headers = dict(letter.headers)
    assert b"nowhere" in (headers["hourhandReason"] or b"")
    assert headers["hourhandTopic"] == PENDING.encode()
