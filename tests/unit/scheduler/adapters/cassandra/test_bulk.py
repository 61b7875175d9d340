"""How buckets are dealt out to statements: small ones together, large ones alone."""

from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.scheduler.adapters.cassandra.bulk import Runs
from hourhand.scheduler.ports.bulk import Bucket


def buckets(partition: int, count: int) -> list[Bucket]:
    """Return so many hours of a partition."""
    return [Bucket(partition, hour * HOUR_MS) for hour in range(count)]


def test_a_run_is_of_one_partition_and_keeps_the_order() -> None:
    """Whatever order the buckets come in, all of them come, and in it."""
    wanted = [*buckets(1, 20), *buckets(2, 3), *reversed(buckets(3, 3))]

    runs = list(Runs(wanted))

    assert [bucket for run in runs for bucket in run] == wanted
    assert all(len({bucket.partition for bucket in run}) == 1 for run in runs)
    assert all(list(run) == sorted(run) for run in runs)
    assert [len(run) for run in runs] == [8, 8, 4, 3, 1, 1, 1]


def test_runs_grow_over_small_buckets_and_shrink_to_one_over_large_ones() -> None:
    """A page of a thousand rows tells how large they are."""
    runs = Runs(buckets(1, 1_000))
    dealt = iter(runs)

    assert len(next(dealt)) == 8
    runs.learn(8, 24)
    assert len(next(dealt)) == 16
    for _ in range(5):
        runs.learn(16, 48)
    assert len(next(dealt)) == 64
    runs.learn(1, 4_000)
    assert len(next(dealt)) == 1
