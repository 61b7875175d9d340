"""What nodes lend each other of the rates of limits: each step of a loan, to the millisecond."""

from collections.abc import Sequence

import pytest

from hourhand.actors.model.flow.flow import REST, Limit, LimitKey
from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.operations.oversight import LimitedFlow, LimitLoan, NodeReport, RateShare
from hourhand.scheduler.node.limits.loans import LOAN_MS, Loans
from hourhand.scheduler.node.limits.shares import NO_RATES
from tests.unit.scheduler.node.limits.test_limiter import LimitsBench

KEY = LimitKey("mail#1", "")
PER_S = 12.0
"""Of the whole limit; each of three nodes has a third."""


def asker(report_number: int, node: str = "b", *keys: LimitKey) -> NodeReport:
    """Return the report of a node where something waits."""
    flows = tuple(LimitedFlow(*key, 3, 0) for key in keys or (KEY,))
    return NodeReport(node, report_number=report_number, limited_flows=flows, borrows=True)


def answer(report_number: int, part: float, node: str = "a", borrower: str = "b") -> NodeReport:
    """Return the report of a node that lends."""
    return NodeReport(
        node, report_number=report_number, lent=(LimitLoan(*KEY, borrower, report_number, part),)
    )


def bench_of(partitions: int = 3, held: int = 1) -> LimitsBench:
    """Return a node that holds some partitions, for long."""
    return LimitsBench(Limit(rate=PER_S, burst=3), partitions=partitions, held=held, lend=True)


def ask(bench: LimitsBench, report_number: int, *others: NodeReport) -> Sequence[LimitLoan]:
    """Let a node read what another one asks; return what it lends."""
    bench.limits.apply_reports("a", [asker(report_number), *others])
    return bench.limits.lent()


def starts_within(bench: LimitsBench, ms: float) -> int:
    """Return how many begin in the next time of those that wait."""
    before = len(bench.done)
    bench.advance(ms)
    return len(bench.done) - before


def waits(bench: LimitsBench) -> None:
    """Have more wait than may begin for long, and its tokens used up."""
    bench.begin(400)
    bench.work_all()


def test_a_node_without_work_lends_all_but_a_tenth_of_its_share() -> None:
    """To one that reported once more since it was read first."""
    bench = bench_of()

    assert ask(bench, 1) == ()
    assert ask(bench, 2) == (LimitLoan(*KEY, "b", 2, 0.9 / 3),)


def test_a_node_that_died_is_lent_nothing_more() -> None:
    """Its last report stays in the store for minutes, with the same number."""
    bench = bench_of()
    ask(bench, 1)
    ask(bench, 2)

    bench.advance(LOAN_MS)

    assert ask(bench, 2) == ()


def test_a_node_lends_nothing_of_a_value_that_it_used_or_that_waits_there() -> None:
    """Nor while it may not be the owner of its partitions any more."""
    bench = bench_of()
    ask(bench, 1)
    bench.begin(1)
    bench.work_all()

    bench.advance(LOAN_MS - 1)
    assert ask(bench, 2) == ()
    bench.alone_until_ms = bench.clock.monotonic_ms()
    bench.advance(1)
    assert ask(bench, 3) == ()
    bench.alone_until_ms = 1e18
    assert ask(bench, 4) != ()

    waiting = bench_of()
    waits(waiting)
    waiting.limits.apply_reports("a", [asker(1)])
    waiting.limits.apply_reports("a", [asker(2)])
    assert waiting.limits.lent() == ()


def test_a_lender_has_a_tenth_until_its_loan_is_over() -> None:
    """What comes meanwhile begins with the tokens it had, and waits no longer than that."""
    bench = bench_of()
    ask(bench, 1)
    ask(bench, 2)
    bench.begin(100)
    assert len(bench.work_all()) == 1

    assert starts_within(bench, LOAN_MS) == 2, "5 s of 0.4 a second"
    assert 19 <= starts_within(bench, 5_000) <= 20


def test_a_borrower_uses_a_loan_until_so_long_after_its_report() -> None:
    """Whenever it reads the answer; an answer to a report of long ago is not used."""
    bench = bench_of()
    waits(bench)
    bench.limits.note_asked(7)
    bench.advance(2_000)
    bench.limits.apply_reports("b", [answer(7, 0.3), answer(7, 0.3, "c")])

    assert 32 <= starts_within(bench, LOAN_MS - 2_000) <= 34, "3 s of (4 + 7.2) a second"
    bench.limits.apply_reports("b", [answer(7, 0.3)])
    assert 19 <= starts_within(bench, 5_000) <= 20, "its own share again"


def test_a_loan_of_another_node_or_report_is_not_taken() -> None:
    """Nor an answer that is older than the one it goes by."""
    loans = Loans()
    loans.note_asked(7, 0.0)
    loans.note_asked(8, 1_000.0)

    assert loans.take("b", [answer(7, 0.3, borrower="c"), answer(6, 0.3)], 1_500.0) == set()
    assert loans.take("b", [answer(8, 0.2)], 1_500.0) == {KEY}
    assert loans.take("b", [answer(7, 0.3)], 1_500.0) == set()
    assert loans.borrowed(KEY) == 0.2
    assert loans.end(LOAN_MS + 999.0) == {} and KEY in loans
    assert loans.end(LOAN_MS + 1_000.0) == {KEY: LOAN_MS + 1_000.0} and KEY not in loans


def test_two_borrowers_never_have_more_than_there_is() -> None:
    """The second one has its half when the first one's larger loan is over."""
    loans = Loans()
    first, second = asker(2, "b"), asker(2, "c")

    assert loans.give(KEY, [first], 0.3, 0.0)
    loans.give(KEY, [first, second], 0.3, 1_000.0)
    assert loans.lent(KEY) == 0.3
    assert [each.part for each in loans.reported()] == [0.15]
    loans.end(LOAN_MS)
    loans.give(KEY, [first, second], 0.3, LOAN_MS)

    assert loans.lent(KEY) == 0.3
    assert {each.borrower: each.part for each in loans.reported()} == {"b": 0.15, "c": 0.15}


def large_bench(key: str | None = None, partitions: int = 3) -> LimitsBench:
    """Return a node with one partition and tokens for so long that a change of rate shows."""
    limit = Limit(rate=PER_S, burst=600, key=key)
    return LimitsBench(limit, partitions=partitions, held=1, lend=True)


def test_a_changed_rate_hands_out_nothing_at_once() -> None:
    """Neither a loan nor its end, nor what nobody looked at in between."""
    bench = large_bench()
    bench.begin(200)
    assert len(bench.work_all()) == 200, "its burst is used up"
    bench.limits.note_asked(7)
    bench.limits.apply_reports("b", [answer(7, 0.6)])
    bench.begin(100)
    assert not bench.passed

    assert 54 <= starts_within(bench, LOAN_MS - 1) <= 56, "5 s of (4 + 7.2) a second"
    assert starts_within(bench, 2) <= 1, "its end"
    assert 15 <= starts_within(bench, 4_000) <= 17, "its own share again"


def test_a_loan_that_is_over_pays_nothing_until_somebody_looks() -> None:
    """An idle borrower has gained by it until its end, and by no more than its share since."""
    bench = large_bench()
    bench.begin(200)
    bench.work_all()
    bench.limits.note_asked(7)
    bench.limits.apply_reports("b", [answer(7, 0.6)])

    bench.clock.advance(LOAN_MS + 2_000)
    bench.begin(200)

    assert 50 <= len(bench.work_all()) <= 5 * 11.2 + 2 * 4


def test_a_value_is_new_to_a_rate_that_rose() -> None:
    """What others could use of partitions that came is gone when these begin to count."""
    bench = LimitsBench(Limit(rate=PER_S, burst=60, key="tenant"), partitions=3, held=1, lend=True)
    bench.hold(3)
    bench.advance(LOAN_MS)

    bench.begin(100, b'{"tenant":"new"}')

    assert not bench.work_all()
    assert 11 <= starts_within(bench, 1_000) <= 12


def test_a_lender_keeps_to_its_tenth_whatever_changes() -> None:
    """A look for values at rest, an operator's change, or another partition: the loan runs on."""
    for happens in ("nothing", "look", "change", "partition"):
        bench = large_bench(partitions=6)
        bench.begin(100)
        bench.work_all()
        bench.clock.advance(1_000_000)
        ask(bench, 1)
        ask(bench, 2)
        if happens == "look":
            bench.limits._forget_idle(bench.clock.monotonic_ms())
        elif happens == "change":
            bench.limits.change([LimitChange("mail#1", rate=PER_S - 0.1)])
        elif happens == "partition":
            bench.hold(2)
            bench.since_ms[-1] = -1e9
            bench.limits.look()
        bench.begin(1_000)
        bench.work_all()

        # A tenth of a sixth of 12 a second; of two sixths, without what is lent, it is 2.2.
        most = 12 if happens == "partition" else 2
        assert starts_within(bench, LOAN_MS - 1) <= most, happens


def test_what_is_lent_stays_lent_when_partitions_are_lost() -> None:
    """The lender's share may then be smaller than its loan: it has the rest alone."""
    bench = bench_of(partitions=6, held=4)
    ask(bench, 1)
    ask(bench, 2)

    bench.hold(1)
    bench.begin(100)
    bench.work_all()

    assert starts_within(bench, LOAN_MS - 1) == 0, "a tenth of a sixth is 0.2 a second"
    assert 9 <= starts_within(bench, 5_000) <= 10


def test_partitions_that_came_count_when_no_loan_of_their_last_owner_can_be_left() -> None:
    """Until then it has the tenth of their share that is never lent."""
    bench = bench_of(partitions=3, held=1)
    waits(bench)
    bench.hold(3)

    began = starts_within(bench, LOAN_MS)
    assert 23 <= began <= 25, "5 s of (4 + 0.8) a second"
    assert 59 <= starts_within(bench, 5_000) <= 60


def test_a_change_of_rate_keeps_tokens_and_gives_none() -> None:
    """Whatever is lent and taken, no time has more than the burst and the whole rate."""
    bench = bench_of()
    for report_number in range(1, 40):
        bench.begin(8)
        bench.work_all()
        bench.limits.note_asked(report_number)
        bench.limits.apply_reports("b", [answer(report_number, 0.6 if report_number % 3 else 0.1)])
        bench.advance(700)

    bench.expect_kept(burst=3, per_ms=1_000 / PER_S)
    assert len(bench.begun_ms) > 200


def test_what_nodes_say_of_their_rates_adds_up_to_the_limit() -> None:
    """The lender by its answers, the borrower by those it took; both without them afterwards."""
    lender, borrower = bench_of(), bench_of()
    ask(lender, 1)
    waits(borrower)
    borrower.limits.note_asked(2)
    (loan,) = ask(lender, 2)
    borrower.limits.apply_reports("b", [NodeReport("a", report_number=2, lent=(loan,))])

    lends, borrows = lender.limits.rates(), borrower.limits.rates()
    assert lends.rates_per_s == borrows.rates_per_s == {LimitKey("mail#1", REST): PER_S}
    assert lends.share == borrows.share == 1 / 3
    assert lends.loans == [RateShare(*KEY, 0.1 / 3, loan.part, 0.0)]
    assert borrows.loans == [RateShare(*KEY, 1 / 3, 0.0, loan.part)]

    for bench in (lender, borrower):
        bench.advance(LOAN_MS)
        assert bench.limits.rates().loans == []


def test_a_node_that_may_start_nothing_yet_says_so() -> None:
    """Without partitions, and of a rate before the loans of their last owner are over."""
    bench = bench_of(partitions=3, held=0)
    assert bench.limits.rates().share == 0

    bench.hold(3)
    assert bench.limits.rates().share == pytest.approx(0.1)
    bench.advance(LOAN_MS)
    assert bench.limits.rates().share == 1
    assert LimitsBench(Limit(concurrency=3)).limits.rates() == NO_RATES


def test_a_shared_allowance_of_many_values_is_not_lent() -> None:
    """Another node counts the same values one by one."""
    bench = bench_of()
    shared = LimitKey("mail#1", "~7")

    bench.limits.apply_reports("a", [asker(1, "b", shared, LimitKey("other#1", ""))])
    bench.limits.apply_reports("a", [asker(2, "b", shared, LimitKey("other#1", ""))])

    assert bench.limits.lent() == ()


def test_a_named_value_borrows_and_lends_of_its_own_rate() -> None:
    """A part of it, as of the rest's: an answer names the part alone."""
    limit = Limit(rate={"gold": 300, REST: 30}, burst=3, key="plan")
    gold, other = LimitKey("mail#1", "gold"), LimitKey("mail#1", "other")
    lender = LimitsBench(limit, partitions=3, lend=True, held=1)
    borrower = LimitsBench(limit, partitions=3, lend=True, held=1)
    for number in (1, 2):
        lender.limits.apply_reports("a", [asker(number, "b", gold, other)])
    loans = lender.limits.lent()
    assert [(each.limit, each.value) for each in loans] == [gold, other]
    for bench in (lender, borrower):
        bench.begin(2_000, b'{"plan":"gold"}')
        bench.begin(2_000, b'{"plan":"other"}')
        bench.work_all()
    borrower.limits.note_asked(2)

    borrower.limits.apply_reports("b", [NodeReport("a", report_number=2, lent=loans)])

    assert borrower.limits.rates().rates_per_s == pytest.approx(
        {LimitKey("mail#1", REST): 30, gold: 300}
    )
    assert starts_within(borrower, 4_000) == pytest.approx(4 * 330 * (1 + 0.9) / 3, abs=4)
    assert starts_within(lender, 4_000) == pytest.approx(4 * 330 * 0.1 / 3, abs=4)
