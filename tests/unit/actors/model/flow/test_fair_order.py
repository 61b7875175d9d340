"""Which flow goes next: priority, then weighted shares, and nobody waits for ever."""

from collections import Counter

from hourhand.actors.model.flow.fair_order import _TAGS_MAX, AGING_STARTS, FairOrder


def _go(order: FairOrder, flows: dict[str, tuple[int, float]], starts: int) -> list[str]:
    """Let flows that always have something more go; return which went."""
    went = []
    for _ in range(starts):
        flow = order.pop()
        assert flow is not None, "something always waits"
        order.count_start()
        went.append(flow)
        order.enter(flow, *flows[flow])
    return went


def _entered(flows: dict[str, tuple[int, float]]) -> FairOrder:
    order = FairOrder()
    for flow, (priority, weight) in flows.items():
        order.enter(flow, priority, weight)
    return order


def test_flows_of_a_priority_go_by_their_weights_at_any_moment() -> None:
    """Not only in the long run: three to one in each four starts."""
    flows = {"big": (0, 3.0), "small": (0, 1.0)}

    went = _go(_entered(flows), flows, 400)

    for first in range(0, 400, 40):
        assert 29 <= Counter(went[first : first + 40])["big"] <= 31


def test_a_flow_that_comes_late_has_no_share_of_the_past() -> None:
    """Nor does one that had its share wait for it."""
    flows = {"old": (0, 1.0), "new": (0, 1.0)}
    order = _entered({"old": (0, 1.0)})
    _go(order, flows, 100)

    order.enter("new", 0, 1.0)

    assert Counter(_go(order, flows, 20)) == {"old": 10, "new": 10}


def test_the_highest_priority_goes_first_and_a_low_one_after_so_many_starts() -> None:
    """Aging: a low one does not starve."""
    flows = {"low": (-1, 1.0), "middle": (0, 1.0), "high": (5, 1.0)}

    went = _go(_entered(flows), flows, 10 * (AGING_STARTS + 2))

    assert went[:AGING_STARTS] == ["high"] * AGING_STARTS
    shares = Counter(went)
    assert shares["high"] > 8 * AGING_STARTS
    assert 9 <= shares["middle"] <= 11 and 9 <= shares["low"] <= 11


def test_what_is_taken_and_did_not_go_is_not_charged() -> None:
    """It was held back, and enters again with what it had."""
    flows = {"a": (0, 1.0), "b": (0, 1.0)}
    order = _entered(flows)
    for _ in range(10):
        assert order.pop() == "a"
        order.enter("a", 0, 1.0)
        assert order.pop() == "b"
        order.enter("b", 0, 1.0)

    assert Counter(_go(order, flows, 10)) == {"a": 5, "b": 5}


def test_an_empty_order_has_nothing() -> None:
    """And a flow that went and did not enter again is not there."""
    order = _entered({"a": (0, 1.0)})
    assert order.pop() == "a"

    assert order.pop() is None


def test_p13_what_is_known_of_flows_that_left_is_bounded() -> None:
    """However many come while another one waits."""
    order = _entered({"waits": (0, 0.000_01), "other": (0, 1.0)})
    assert order.pop() == "waits"
    order.count_start()
    order.enter("waits", 0, 0.000_01)
    assert order.pop() == "other"

    for number in range(3 * _TAGS_MAX):
        order.enter(str(number), 0, 0.5)
        assert order.pop() == str(number)
        order.count_start()

    assert len(order._by_priority[0].finish_tags) <= _TAGS_MAX
