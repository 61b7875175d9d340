"""The next node that wants to work, compared with asking all nodes."""

import random

from tests.simulation.wakes import Wakes


class _Node:
    """Wants to go on at a time that anybody may change."""

    def __init__(self, wanted_ms: float) -> None:
        self.wanted_ms = wanted_ms
        self.asked = 0

    def next_ms(self) -> float:
        """Return that time."""
        self.asked += 1
        return self.wanted_ms


def test_it_says_what_asking_every_node_would_say() -> None:
    """Nodes come and go, and say so where they want to work earlier or later than they said."""
    rng = random.Random(3)
    wakes: Wakes[_Node] = Wakes()
    nodes: list[_Node] = []
    for _ in range(5_000):
        lot = rng.random()
        if lot < 0.1 or not nodes:
            nodes.append(_Node(rng.randrange(100)))
            wakes.add(nodes[-1])
        elif lot < 0.18:
            wakes.forget(nodes.pop(rng.randrange(len(nodes))))
        elif lot < 0.8:
            node = rng.choice(nodes)
            node.wanted_ms += rng.randint(-10, 10)
            wakes.wake(node)
        now_ms = rng.randrange(100)

        if rng.random() < 0.5:
            assert wakes.next_ms(1e9) == min((each.wanted_ms for each in nodes), default=1e9)
        if rng.random() < 0.5:
            assert wakes.due(now_ms) == [each for each in nodes if each.wanted_ms <= now_ms]


def test_nodes_that_sleep_are_not_asked() -> None:
    """The cost of an event does not grow with the number of nodes."""
    wakes: Wakes[_Node] = Wakes()
    nodes = [_Node(1_000.0 + number) for number in range(100)]
    for node in nodes:
        wakes.add(node)
    wakes.next_ms(1e9)
    before = sum(node.asked for node in nodes)

    for _ in range(100):
        wakes.wake(nodes[0])
        assert wakes.next_ms(1e9) == 1_000.0
        assert wakes.due(999.0) == []

    assert sum(node.asked for node in nodes) - before <= 300
