"""What cannot be passed on, what cannot even be put aside, and what goes on meanwhile."""

import pytest

from tests.unit.scheduler.kafka_only.bucket_world import LETTERS, TARGET, BucketWorld
from tests.unit.scheduler.kafka_only.test_observed import WAIT_S, OneOwner
from tests.unit.scheduler.kafka_only.transactional_log import AWAY_MS, PENDING


def test_p17_a_letter_that_is_refused_itself_is_written_short() -> None:
    """With why the message was refused and where it stood; the rest goes on."""
    world = BucketWorld(5, hazards=False)
    world.log.record_bytes_max = {"small": 500, LETTERS: 500}
    refused = world.send(500, b"k", "small", [("h", b"x" * 1_000)])
    del world.sent[refused]
    for _ in range(5):
        world.send(500)
    world.run(3_000)

    world.judge()
    ((letter, _),) = world.log.arrivals(LETTERS)
    headers = dict(letter.headers)
    assert (letter.key, letter.value) == (None, None)
    assert "hourhandLeftOut" in headers
    assert b"too large for 'small'" in (headers["hourhandReason"] or b"")
    assert headers["hourhandTopic"] == PENDING.encode()


def test_p7_a_record_that_cannot_be_put_aside_waits_with_its_partition_until_it_can() -> None:
    """Nothing is lost by then, and the letter is whole, with the first reason."""
    world = BucketWorld(5, hazards=False)
    world.log.refusing = {"nowhere", LETTERS}
    refused = world.send(500, key=b"k", topic="nowhere")
    del world.sent[refused]
    world.send(3_000)
    world.run(10_000)
    assert not world.log.arrivals(LETTERS)

    world.log.refusing = {"nowhere"}
    world.run(10_000)
    world.judge()
    ((letter, _),) = world.log.arrivals(LETTERS)
    assert (letter.key, letter.value) == (b"k", refused)
    assert b"'nowhere' does not exist" in (dict(letter.headers)["hourhandReason"] or b"")


@pytest.mark.parametrize("hazards", [False, True])
def test_p7_a_target_that_takes_nothing_holds_what_is_bound_for_it_and_nothing_else(
    *, hazards: bool
) -> None:
    """However many wait for it, others pass; once it takes messages again, none is lost."""
    world = BucketWorld(3, hazards=hazards)
    world.log.away.add("gone")
    for number in range(200):
        world.send(50 * number, topic=TARGET if number % 4 else "gone")
    world.run(30_000)
    others = {value: due_ms for value, due_ms in world.sent.items() if int(value) % 4}
    seen = {record.value: at_ms for record, at_ms in world.log.arrivals(TARGET)}
    assert seen.keys() == others.keys()
    if not hazards:
        assert max(seen[value] - due_ms for value, due_ms in others.items()) <= 500
    assert not world.log.arrivals("gone")

    world.log.away.clear()
    world.hazards = False
    world.run(30_000)
    passed_on = [record.value for record, _ in world.log.arrivals("gone")]
    assert len(passed_on) == len(set(passed_on)) == 50
    assert world.clock.now_ms() - max(world.sent.values()) > AWAY_MS


def test_an_owner_that_gets_nothing_done_pauses_for_longer_each_time() -> None:
    """A refusal that nobody mends is not asked for thousands of times."""
    one = OneOwner()
    one.log.refusing = {TARGET, LETTERS}
    pauses_s: list[float] = []

    def pause(pause_s: float) -> None:
        pauses_s.append(pause_s)
        if len(pauses_s) == 8:
            one.log.refusing.clear()

    one.owner._pause = pause  # type: ignore[method-assign]
    one.start()
    one.send()
    assert one.settled.wait(WAIT_S)
    one.close()

    assert pauses_s[:7] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0]
