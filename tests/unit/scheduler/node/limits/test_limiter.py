"""Which attempts of a node wait because of a limit, and when each goes on."""

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.execution.attempts import Ending
from hourhand.actors.model.flow.fair_order import AGING_STARTS
from hourhand.actors.model.flow.flow import FairShare, FlowRule, FlowRules, Limit
from hourhand.actors.model.task.kind import with_kind
from hourhand.actors.model.task.priority import with_priority
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.node.limits import limiter
from hourhand.scheduler.node.limits.limiter import Limited, Limiter
from hourhand.scheduler.node.limits.node_limits import NodeLimits
from tests.builders import a_stored_task, an_attempt
from tests.unit.scheduler.node.runner_bench import TIMEOUT_S, Bench, Blocking, Quick, task_of


class LimitsBench:
    """The limits of a node, whose time and workers the test moves."""

    def __init__(
        self,
        *limits: Limit,
        on_node: int | None = None,
        partitions: int = 1,
        gate: Callable[[Any], bool] = lambda _: True,
        fair: FairShare | None = None,
        priority: int | None = None,
        lend: bool = False,
        held: int | None = None,
    ) -> None:
        """``held`` of the partitions are its own; all where nothing is said."""
        self.clock = VirtualClock(0)
        self.passed: list[RunningAttempt] = []
        self.refused: list[RunningAttempt] = []
        self.begun_ms: list[float] = []
        self.done: list[RunningAttempt] = []
        self.gained_ms, self.alone_until_ms = 0.0, 1e18
        self.since_ms = [-1e9] * (partitions if held is None else held)
        self.limits = Limiter(
            NodeLimits(
                FlowRules({"mail": FlowRule(limits, priority, fair)}),
                {} if on_node is None else {"mail": on_node},
                partitions,
                self,
                lend,
            ),
            gate=gate,
            monotonic_ms=self.clock.monotonic_ms,
            following=self.passed.extend,
            refuse=self.refused.append,
            wake_later=lambda _: None,
        )
        # All tokens are there.
        self.clock.advance(1_000_000)

    def watch(self, changed: Callable[[], object]) -> None:
        """Keep what is called by ``hold``."""
        self.tell_changed = changed

    def hold(self, partitions: int) -> None:
        """Hold so many from now on."""
        new = partitions - self.count
        if new > 0:
            self.gained_ms = self.clock.monotonic_ms()
            self.since_ms += [self.gained_ms] * new
        del self.since_ms[partitions:]
        self.tell_changed()

    @property
    def count(self) -> int:
        """Number of partitions that it owns."""
        return len(self.since_ms)

    def begin(
        self,
        count: int = 1,
        data: bytes = b"{}",
        kind: str | None = "mail",
        own: int | None = None,
    ) -> None:
        """Have some attempts wait for what they need; ``own`` is their tasks' priority."""
        data = data if kind is None else with_kind(data, kind)
        task = a_stored_task(data=data if own is None else with_priority(data, own))
        attempts = [an_attempt(task=task) for _ in range(count)]
        self.limits.enter([RunningAttempt(each, Quick(), None) for each in attempts])

    def work(self, running: RunningAttempt) -> None:
        """Begin and end one."""
        self.use(running)
        self.limits.end(running)

    def use(self, running: RunningAttempt) -> None:
        """Begin one."""
        now_ms = self.clock.monotonic_ms()
        self.begun_ms.append(now_ms)
        running.started_monotonic_ms = now_ms
        self.limits.use(running, now_ms)

    def work_all(self) -> Sequence[RunningAttempt]:
        """Begin and end whatever has gone on; return it."""
        done: list[RunningAttempt] = []
        while self.passed:
            done.append(self.passed.pop(0))
            self.work(done[-1])
        self.done += done
        return done

    def advance(self, ms: float) -> None:
        """Let time pass, from one moment at which the limits want to look to the next."""
        end_ms = self.clock.monotonic_ms() + ms
        while (next_ms := self.limits.next_ms()) is not None and next_ms <= end_ms:
            self.clock.advance(max(0.0, next_ms - self.clock.monotonic_ms()))
            self.limits.look()
            self.work_all()
        self.clock.advance(end_ms - self.clock.monotonic_ms())

    def look_if_due(self) -> None:
        """Have the limits looked at where one lets something through by now."""
        if (next_ms := self.limits.next_ms()) and next_ms <= self.clock.monotonic_ms():
            self.limits.look()

    def expect_kept(self, burst: int, per_ms: float) -> None:
        """See that no time had more starts than a burst and one in each ``per_ms``."""
        begun = self.begun_ms
        for first, start_ms in enumerate(begun):
            for last in range(first, min(first + 60, len(begun))):
                allowed = burst + (begun[last] - start_ms) / per_ms
                assert last - first + 1 <= allowed + 1e-6

    def waiting(self) -> int:
        """Return how many wait."""
        return len(self.limits.limited())


def test_a_burst_starts_at_once_and_the_rest_at_the_rate() -> None:
    """To the millisecond."""
    bench = LimitsBench(Limit(rate=50, burst=3))
    start_ms = bench.clock.monotonic_ms()

    bench.begin(10)
    bench.work_all()
    bench.advance(1_000)

    assert [each - start_ms for each in bench.begun_ms] == [0, 0, 0, 20, 40, 60, 80, 100, 120, 140]
    assert bench.limits.next_ms() is None


def test_no_window_of_time_sees_more_than_the_rate_and_the_burst() -> None:
    """However late workers are, and however the attempts come and fail to begin."""
    rng = random.Random(33)
    limit = Limit(rate=100, burst=4)
    bench = LimitsBench(limit)
    for _ in range(3_000):
        match rng.randrange(5):
            case 0:
                bench.begin(rng.randrange(6))
            case 1 if bench.passed:
                bench.limits.end(bench.passed.pop(0))
            case 2 | 3 if bench.passed:
                bench.work(bench.passed.pop(0))
            case _:
                bench.clock.advance(rng.choice((0, 1, 7, 31)))
        bench.look_if_due()

    assert len(bench.begun_ms) > 500
    bench.expect_kept(4, limit.per_ms)
    # And nothing is lost: what waits goes on.
    bench.work_all()
    bench.advance(1_000_000)
    assert bench.waiting() == 0 and not bench.passed


def test_what_is_late_at_its_worker_does_not_start_in_a_burst() -> None:
    """Tokens are used when attempts begin, so at most the burst waits for workers."""
    bench = LimitsBench(Limit(rate=10, burst=2))

    bench.begin(100)
    for _ in range(50):
        bench.clock.advance(1_000)
        bench.limits.look()

    assert len(bench.passed) == 2


def test_more_at_once_than_the_limit_waits_and_goes_on_in_order() -> None:
    """One that ends makes room for one; in the cluster and on a node alike."""
    for bench in (LimitsBench(Limit(concurrency=2)), LimitsBench(on_node=2, partitions=7)):
        for _ in range(4):
            bench.begin()
        first = list(bench.passed)
        bench.use(first[0])
        bench.limits.end(first[0])
        second = list(bench.passed)
        bench.limits.end(first[1])
        bench.limits.end(second[2])

        assert len(first) == 2 and len(second) == 3 and len(bench.passed) == 4
        assert bench.waiting() == 0


def test_each_value_of_a_key_has_its_own_allowance() -> None:
    """And what has no value has one too; other kinds have none."""
    bench = LimitsBench(Limit(concurrency=1, key="tenant"))

    for data in (b'{"tenant":"a"}', b'{"tenant":"b"}', b"{}"):
        bench.begin(2, data)
    bench.begin(3, kind="other")
    bench.begin(3, kind=None)

    assert len(bench.passed) == 3 + 6
    assert sorted(each[:2] for each in bench.limits.limited()) == [
        ("mail#1", ""),
        ("mail#1", "a"),
        ("mail#1", "b"),
    ]


def test_each_value_of_a_key_has_the_rate_that_is_named_for_it() -> None:
    """Whatever else the data says has that of the rest; a missing value has one named for it."""
    limit = Limit(rate={"gold": 50, "": 2, "*": 5}, burst=1, key="plan")
    bench = LimitsBench(limit)
    wanted = {
        b'{"plan":"gold"}': 50,
        b'{"plan":"tin"}': 5,
        b'{"plan":"GOLD"}': 5,
        b'{"plan":"*"}': 5,
        b'{"plan":["gold"]}': 2,
    }

    for data in wanted:
        bench.begin(600, data)
        bench.work_all()
    bench.advance(10_000)

    started = Counter(each.attempt.task.data for each in bench.done)
    for data, rate in wanted.items():
        assert started[data] == pytest.approx(10 * rate, abs=1)


def test_a_share_of_partitions_is_one_of_each_values_rate() -> None:
    """And of the burst that each rate gives."""
    bench = LimitsBench(
        Limit(rate={"gold": 300, "*": 30}, key="plan"), partitions=3, held=1, lend=False
    )
    assert bench.count == 1

    bench.begin(600, b'{"plan":"gold"}')
    assert len(bench.work_all()) == 10
    bench.begin(600, b'{"plan":"tin"}')
    assert len(bench.work_all()) == 1
    bench.advance(1_000)
    assert len(bench.done) == pytest.approx(11 + 100 + 10, abs=2)
    bench.hold(3)
    bench.advance(1_000)
    assert len(bench.done) == pytest.approx(121 + 330, abs=4)


def test_a_named_value_shares_no_allowance_with_a_flood_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its rate is neither used up by them nor theirs."""
    monkeypatch.setattr(limiter, "VALUES_MAX", 20)
    monkeypatch.setattr(limiter, "_SHARED", 2)
    bench = LimitsBench(Limit(rate={"gold": 100, "*": 1}, burst=1, key="plan"))
    for number in range(200):
        bench.begin(1, b'{"plan":"%d"}' % number)
    bench.begin(1_000, b'{"plan":"gold"}')
    bench.work_all()

    bench.advance(2_000)

    gold = sum(each.attempt.task.data.startswith(b'{"plan":"gold"') for each in bench.done)
    assert gold == pytest.approx(201, abs=1)
    assert len(bench.done) - gold <= 20 + 2 + 2 * 2
    assert len(bench.limits._allowances) <= 20 + 2 + 1


def test_an_attempt_needs_an_allowance_of_every_limit() -> None:
    """It holds none while it waits for another one, so other values go by."""
    bench = LimitsBench(Limit(rate=1, burst=2), Limit(concurrency=1, key="tenant"))

    bench.begin(2, b'{"tenant":"a"}')
    bench.begin(1, b'{"tenant":"b"}')
    assert len(bench.passed) == 2
    first, other = bench.passed
    bench.use(first)
    bench.use(other)
    bench.limits.end(first)
    assert bench.waiting() == 1
    bench.passed.clear()
    bench.advance(999)
    assert len(bench.begun_ms) == 2
    bench.advance(1)

    assert len(bench.begun_ms) == 3 and bench.waiting() == 0


def test_the_first_to_come_is_the_first_to_go_whatever_it_waited_for() -> None:
    """Who came first and had to change the line is not behind those who came later."""
    bench = LimitsBench(Limit(rate=1, burst=1), Limit(concurrency=1, key="tenant"))
    bench.begin(1, b'{"tenant":"a","n":0}')
    bench.use(bench.passed[0])
    bench.begin(1, b'{"tenant":"a","n":1}')
    for number in range(2, 5):
        bench.begin(1, b'{"tenant":"b%d"}' % number)
    bench.limits.end(bench.passed.pop())

    bench.clock.advance(1_000)
    bench.limits.look()

    assert b'"n":1' in bench.passed[0].attempt.task.data


def test_who_changes_the_line_keeps_the_place_of_its_arrival() -> None:
    """It had to wait for its tenant's slot first, while others waited for the rate."""
    bench = LimitsBench(Limit(concurrency=1, key="tenant"), Limit(rate=1, burst=1))
    for tenant, number in ((b"a", 0), (b"a", 1), (b"b", 2), (b"c", 3)):
        bench.begin(1, b'{"tenant":"%s","n":%d}' % (tenant, number))

    bench.work_all()
    bench.advance(5_000)

    order = [json.loads(each.attempt.task.data)["n"] for each in bench.done]
    assert order == [0, 1, 2, 3]


def test_what_waits_for_one_limit_is_shared_by_weight() -> None:
    """Who brought ten times as much has its share, and no more while others wait."""
    share = FairShare(key="tenant", weights={"double": 2})
    bench = LimitsBench(Limit(concurrency=1), fair=share)
    bench.begin(100, b'{"tenant":"big"}')
    bench.begin(10, b'{"tenant":"small"}')
    bench.begin(20, b'{"tenant":"double"}')

    bench.work_all()
    order = [json.loads(each.attempt.task.data)["tenant"] for each in bench.done]

    assert len(order) == 130 and bench.waiting() == 0
    assert Counter(order[1:41]) == {"big": 10, "small": 10, "double": 20}
    bench.begin(3, b'{"tenant":"big"}')
    assert not bench.passed[0].limited_ms and bench.waiting() == 2


def test_what_waits_for_a_limit_goes_by_priority() -> None:
    """Then as it came; a lower one goes after 16 of higher ones, and is not starved."""
    bench = LimitsBench(Limit(concurrency=1), priority=5)
    bench.begin(1)
    for number in range(20):
        bench.begin(1, b'{"n":%d}' % number)
    for own, number in ((-1, 20), (9, 21), (5, 22), (9, 23)):
        bench.begin(1, b'{"n":%d}' % number, own=own)

    bench.work_all()

    order = [json.loads(each.attempt.task.data)["n"] for each in bench.done[1:]]
    # The kind's own priority is 5, so 22 stands behind its tasks as it came.
    assert [each for each in order if each != 20] == [21, 23, *range(20), 22]
    assert order.index(20) == AGING_STARTS


def test_priority_goes_before_fair_shares_and_they_before_time() -> None:
    """Each tenant has its part of one priority, and the first task of a tenant goes first."""
    bench = LimitsBench(Limit(rate=1, burst=1), fair=FairShare(key="tenant"))
    for tenant, count in (("first", 1), ("big", 6), ("small", 2)):
        for number in range(count):
            bench.begin(1, b'{"tenant":"%s","n":%d}' % (tenant.encode(), number))
    for number in (6, 7):
        bench.begin(1, b'{"tenant":"big","n":%d}' % number, own=1)

    bench.work_all()
    bench.advance(20_000)

    read = [json.loads(each.attempt.task.data) for each in bench.done[1:]]
    order = [(each["tenant"], each["n"]) for each in read]
    fair = [("big", 0), ("small", 0), ("big", 1), ("small", 1)]
    assert order[:6] == [("big", 6), ("big", 7), *fair]
    assert order[6:] == [("big", number) for number in range(2, 6)]


def test_what_leaves_a_line_keeps_nobody_from_its_turn() -> None:
    """Whole flows may leave, and come again."""
    bench = LimitsBench(Limit(concurrency=1), fair=FairShare(key="tenant"))
    bench.begin(1)
    for number in range(30):
        bench.begin(1, b'{"tenant":"t%d","n":%d}' % (number % 3, number))
    leaving = [each for each in bench.limits._tickets if b'"t1"' in each.attempt.task.data]
    for each in leaving[:5] + leaving[:4:-1]:
        assert bench.limits.withdraw(each)
    bench.begin(1, b'{"tenant":"t1","n":30}')

    bench.work_all()

    order = [json.loads(each.attempt.task.data)["n"] for each in bench.done[1:]]
    assert sorted(order) == sorted([*range(0, 30, 3), *range(2, 30, 3), 30])
    assert order.index(30) <= 3 and bench.waiting() == 0 and not bench.limits._tickets


def test_a_kinds_limit_on_a_node_looks_at_no_priority_without_flow_control() -> None:
    """As the turns before workers: nothing of flow control is declared."""
    bench = LimitsBench(on_node=1)
    bench.begin(1)
    for own in (0, 9):
        bench.begin(1, b'{"n":%d}' % own, own=own)

    bench.work_all()

    assert [json.loads(each.attempt.task.data)["n"] for each in bench.done[1:]] == [0, 9]


def test_one_that_never_begins_gives_its_allowance_back() -> None:
    """As one whose partition was lost meanwhile."""
    bench = LimitsBench(Limit(rate=1, burst=1, concurrency=1))
    bench.begin(2)

    bench.limits.end(bench.passed.pop())

    assert len(bench.passed) == 1 and bench.waiting() == 0


def test_one_that_is_withdrawn_leaves() -> None:
    """Those behind it move up, and what leaves takes no memory."""
    bench = LimitsBench(Limit(rate=1, burst=1))
    bench.begin(4)
    waiting = list(bench.limits._tickets)

    assert bench.limits.withdraw(waiting[0]) and not bench.limits.withdraw(waiting[0])
    assert not bench.limits.withdraw(bench.passed[0])
    assert bench.waiting() == 2
    bench.work_all()
    bench.advance(1_000)
    assert bench.limits.withdraw(waiting[2])
    bench.advance(10_000)
    assert bench.waiting() == 0 and not bench.limits._tickets and len(bench.begun_ms) == 2


def test_what_waits_of_a_failed_tree_is_forgotten() -> None:
    """Of every partition, and nobody is told."""
    rules = FlowRules({None: FlowRule((Limit(rate=1, per=timedelta(hours=1)),))})
    bench = Bench(limits=NodeLimits(rules))
    attempts = [an_attempt(task=task_of(f"id-{number}")) for number in range(3)]
    bench.runner.start([(each, Blocking()) for each in attempts], bench.ends.put)
    bench.ended()

    bench.runner.drain(None)

    assert not bench.runner.limited() and not bench.runner.unsettled(attempts[0].partition)
    assert bench.ends.empty()
    bench.close()


def test_only_what_waits_for_an_allowance_is_withdrawn_as_limited() -> None:
    """Its data changed: what waits for a worker keeps the data it was begun with."""
    rules = FlowRules({None: FlowRule((Limit(concurrency=1),))})
    bench, gate, begun = Bench(limits=NodeLimits(rules)), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        gate.wait(TIMEOUT_S)

    runs, waits = (an_attempt(task=task_of(name)) for name in ("first", "second"))
    bench.run(Blocking(work), runs)
    bench.run(Blocking(), waits)
    assert begun.wait(TIMEOUT_S)

    assert not bench.runner.withdraw(runs, limited=True)
    assert bench.runner.withdraw(waits, limited=True)
    assert not bench.runner.withdraw(waits, limited=True)
    gate.set()
    endings = {bench.ended().attempt: each for each in ("first", "second")}
    bench.close()
    assert set(endings) == {runs, waits}


def test_what_waits_of_a_partition_that_is_given_up_is_let_go() -> None:
    """At once; and nothing of it waits any more from then on."""
    allowed = True
    bench = LimitsBench(Limit(concurrency=1), gate=lambda _: allowed)
    bench.begin(3)

    allowed = False
    left = bench.limits.drain((bench.passed[0].attempt.partition,))
    bench.begin(1)

    assert len(left) == 2 and len(bench.refused) == 1 and bench.waiting() == 0


def test_a_node_has_the_share_of_its_partitions() -> None:
    """All tokens that it has stay; it is given none with a new partition."""
    bench = LimitsBench(Limit(rate=40, burst=8, concurrency=100, key="tenant"), partitions=4)
    bench.hold(1)
    bench.begin(10, b'{"tenant":"a"}')
    bench.work_all()
    assert len(bench.begun_ms) == 2
    bench.advance(1_000)
    assert len(bench.begun_ms) == 10

    bench.hold(4)
    bench.begin(100, b'{"tenant":"a"}')
    bench.begin(100, b'{"tenant":"b"}')
    bench.work_all()
    assert len(bench.begun_ms) == 12
    bench.advance(500)
    assert len(bench.begun_ms) == 12 + 2 * 20
    bench.advance(500)
    assert len(bench.begun_ms) == 12 + 2 * 40


def test_a_node_without_partitions_gathers_nothing() -> None:
    """Others have all of the limit meanwhile; what it owned before does not matter."""
    bench = LimitsBench(Limit(rate=4, burst=8, key="tenant"), partitions=4)
    bench.begin(8, b'{"tenant":"a"}')
    bench.work_all()

    bench.hold(0)
    bench.clock.advance(1_000_000)
    bench.limits.look()
    bench.hold(4)
    bench.begin(10, b'{"tenant":"a"}')
    bench.begin(10, b'{"tenant":"b"}')
    bench.work_all()
    at_once = len(bench.begun_ms) - 8
    bench.advance(1_000)

    assert at_once == 0
    assert len(bench.begun_ms) == 8 + 2 * 4


def test_partitions_that_go_and_come_back_unseen_bring_nothing() -> None:
    """Nobody begins anything in between, so that the node looks at its shares only afterwards."""
    bench = LimitsBench(Limit(rate=4, burst=8), partitions=4)
    bench.begin(8)
    bench.work_all()

    for held in (1, 4):
        bench.hold(held)
        bench.clock.advance(100_000)
    bench.begin(1)

    assert not bench.passed and bench.waiting() == 1


def test_a_slow_limit_lets_one_begin_where_partitions_came_back() -> None:
    """Nobody waits for a day because a node restarts; what was used before stays used."""
    bench = LimitsBench(Limit(rate=1, per=timedelta(days=1), burst=3, key="tenant"))
    bench.clock.advance(3 * 86_400_000)
    bench.begin(1, b'{"tenant":"a"}')
    bench.begin(3, b'{"tenant":"b"}')
    bench.work_all()

    bench.hold(0)
    bench.hold(1)
    bench.begin(3, b'{"tenant":"a"}')
    bench.begin(3, b'{"tenant":"b"}')

    assert [each.attempt.task.data[:13] for each in bench.passed] == [b'{"tenant":"a"']


def test_a_node_always_has_a_slot() -> None:
    """However few partitions it holds: a task of its own may never wait for ever."""
    bench = LimitsBench(Limit(concurrency=2), partitions=16)
    bench.hold(1)

    bench.begin(3)

    assert len(bench.passed) == 1
    bench.hold(16)
    bench.begin()
    assert len(bench.passed) == 2


def test_values_that_are_idle_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """And more values than fit share their allowances, which are never exceeded."""
    monkeypatch.setattr(limiter, "_KEPT_MIN", 10)
    monkeypatch.setattr(limiter, "VALUES_MAX", 50)
    monkeypatch.setattr(limiter, "_SHARED", 5)
    bench = LimitsBench(Limit(rate=1, per=timedelta(hours=1), key="user"))
    bench.limits._kept_max = 10

    for number in range(500):
        bench.begin(1, b'{"user":%d}' % number)
        bench.work_all()
    assert len(bench.limits._allowances) <= 50 + 5
    assert len(bench.begun_ms) <= 50 + 5
    bench.advance(1_000 * 3_600_000)
    assert len(bench.begun_ms) == 500
    bench.limits._forget_idle(bench.clock.monotonic_ms())

    assert not bench.limits._allowances


def test_it_says_what_waits_and_how_long() -> None:
    """For those who look."""
    bench = LimitsBench(Limit(rate=1, per=timedelta(minutes=1), burst=1, key="tenant"))
    bench.begin(3, b'{"tenant":"a"}')
    bench.work_all()

    bench.clock.advance(5_000)

    waiting = list(bench.limits._tickets)
    assert bench.limits.limited() == [
        Limited("mail#1", "a", each.attempt, 5_000) for each in waiting
    ]
    assert len(waiting) == 2
    bench.advance(60_000)
    assert [each.limited_ms for each in waiting] == [60_000, 0]


@pytest.mark.parametrize("executor", [Blocking, Quick])
def test_threads_and_coroutines_keep_a_rate(executor: Callable[[], Any]) -> None:
    """On a real clock: 20 starts, 10 ms apart except for two."""
    rules = FlowRules({None: FlowRule((Limit(rate=100, burst=2),))})
    bench = Bench(limits=NodeLimits(rules))
    attempts = [an_attempt(task=task_of(f"id-{number}")) for number in range(21)]
    withdrawn = attempts.pop()
    clock = SystemClock()
    began_ms = clock.monotonic_ms()

    bench.runner.start([(each, executor()) for each in (*attempts, withdrawn)], bench.ends.put)
    assert bench.runner.withdraw(withdrawn)
    ended = [bench.ends.get(timeout=60) for _ in range(21)]
    took_ms = clock.monotonic_ms() - began_ms
    bench.close()

    endings = {each.attempt: each.ending for each in ended}
    assert endings.pop(withdrawn) is Ending.NOT_STARTED
    assert Ending.NOT_STARTED not in endings.values() and len(endings) == 20
    assert took_ms >= 175 and not list(bench.runner.limited())


def test_a_wait_for_a_limit_is_not_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A millisecond more for each start would be 4 in 10 of this rate, as its burst is one."""
    rules = FlowRules({None: FlowRule((Limit(rate=400, burst=1),))})
    bench = Bench(limits=NodeLimits(rules))
    asked_ms: list[float] = []
    call_later = bench.workers.wake_later

    def noted(delay_ms: float, call: Callable[[], object]) -> Callable[[], object]:
        asked_ms.append(delay_ms)
        return call_later(delay_ms, call)

    monkeypatch.setattr(bench.workers, "wake_later", noted)
    attempts = [an_attempt(task=task_of(f"id-{number}")) for number in range(4)]
    bench.runner.start([(each, Quick()) for each in attempts], bench.ends.put)
    for _ in attempts:
        bench.ended()
    bench.close()

    assert asked_ms and max(asked_ms) <= 2.5


def test_a_drain_ends_what_waits_for_an_allowance() -> None:
    """At once: its new owner starts it."""
    rules = FlowRules({None: FlowRule((Limit(rate=1, per=timedelta(hours=1)),))})
    bench = Bench(limits=NodeLimits(rules))
    attempts = [an_attempt(task=task_of(f"id-{number}")) for number in range(3)]
    bench.runner.start([(each, Blocking()) for each in attempts], bench.ends.put)
    bench.ended()

    bench.open = False
    bench.runner.drain((attempts[0].partition,))

    assert {bench.ended().ending for _ in range(2)} == {Ending.NOT_STARTED}
    bench.close()
