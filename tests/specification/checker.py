"""Looks at every state that a small model can reach, and tells the shortest way to a bad one.

A model is an initial state and a function that yields (what happens, next state).  States are
values.  It decides nothing about what is modelled.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

State = TypeVar("State", bound=Hashable)
Steps = Callable[[State], Iterable[tuple[str, State]]]


def shortest_way_to(
    initial: State,
    steps: Callable[[State], Iterable[tuple[str, State]]],
    is_bad: Callable[[State], bool],
) -> tuple[list[str] | None, int]:
    """Return what happens on the way to a bad state, None where there is none, and how many
    states were looked at.
    """
    came_from: dict[State, tuple[State, str] | None] = {initial: None}
    layer = [initial]
    while layer:
        following: list[State] = []
        for state in layer:
            if is_bad(state):
                return _way(came_from, state), len(came_from)
            for what, after in steps(state):
                if after not in came_from:
                    came_from[after] = (state, what)
                    following.append(after)
        layer = following
    return None, len(came_from)


def _way(came_from: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    way: list[str] = []
    step = came_from[state]
    while step is not None:
        before, what = step
        way.append(what)
        step = came_from[before]
    return way[::-1]
