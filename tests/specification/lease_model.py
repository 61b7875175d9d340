"""One member's lease and the coordinator's session, with requests and answers on their way.

Time is whole ticks, and both clocks are true, so the lease needs no margin.  Requests wait on one
connection as long as the model likes, which may break once: what was sent on it is lost or was
taken, and the driver sends a commit again on the next one.  It sends heartbeats whenever it likes,
or never.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

SESSION = 2
REACH = SESSION
TIME_MAX = 4
COMMITS_MAX = {"classic": 2, "consumer": 1}

Protocol = Literal["classic", "consumer"]
Breakage = Literal[
    "",
    "counts from the answer",
    "takes any answer for the last commit's",
    "counts from the commit",
    "counts from the later statistics",
    "heartbeat known after the commit",
    "any connection",
    "not confirmed",
]


class Request(NamedTuple):
    """On its way to the coordinator; a heartbeat has no number."""

    number: int
    sent: int
    heard: int | None
    connection: int


class LeaseState(NamedTuple):
    """Everything there is; times are ticks."""

    now: int = 0
    session_ends: int = SESSION
    is_owner: bool = True
    on_way: tuple[Request, ...] = ()
    answers: tuple[Request, ...] = ()
    connection: int = 0
    commits: int = 0
    last_sent: int = 0
    sampled: int = 0
    """When statistics were taken last; before that a heartbeat is nobody's knowledge."""
    sampled_connection: int = 0
    sent_since: bool = False
    heard: int | None = None
    heard_connection: int = 0
    accepted: Request | None = None
    """Waits for statistics that confirm its connection."""
    lease_ends: int = -1


def is_bad(state: LeaseState) -> bool:
    """True if this member may start an attempt although another one may own the partition (P3)."""
    return state.now < state.lease_ends and not state.is_owner


@dataclass(frozen=True, slots=True)
class LeaseModel:
    """The protocol, and one rule of the lease that is left out, if any."""

    protocol: Protocol
    breakage: Breakage = ""

    def steps(self, state: LeaseState) -> Iterator[tuple[str, LeaseState]]:
        """Yield whatever may happen next."""
        if state.now < TIME_MAX:
            yield "a tick", state._replace(now=state.now + 1)
        if state.is_owner and state.now >= state.session_ends:
            yield "the session ends", state._replace(is_owner=False)
        if state.on_way:
            yield self._taken(state)
        if state.answers:
            yield self._answered(state)
        if state.commits < COMMITS_MAX[self.protocol]:
            yield self._commit(state)
        if self.protocol == "consumer":
            yield from self._driver(state)

    def _commit(self, state: LeaseState) -> tuple[str, LeaseState]:
        sent = Request(state.commits + 1, state.now, state.heard, state.heard_connection)
        return "a commit is sent", state._replace(
            commits=state.commits + 1,
            last_sent=state.now,
            on_way=(*state.on_way, sent),
        )

    def _driver(self, state: LeaseState) -> Iterator[tuple[str, LeaseState]]:
        # The driver waits for an answer before it sends another one.
        if not state.sent_since and all(each.number for each in state.on_way):
            heartbeat = Request(0, state.now, None, state.connection)
            yield (
                "a heartbeat is sent",
                state._replace(sent_since=True, on_way=(*state.on_way, heartbeat)),
            )
        yield "statistics are taken", self._sampled(state)
        if state.connection == 0:
            # Heartbeats go down with the connection; commits are sent again.
            again = tuple(each for each in state.on_way if each.number)
            yield "the connection breaks", state._replace(connection=1, on_way=again)

    def _sampled(self, state: LeaseState) -> LeaseState:
        same = state.sampled_connection == state.connection
        accepted = state.accepted
        kept = accepted is not None and accepted.connection == state.connection
        confirmed = kept or self.breakage == "any connection"
        if accepted is not None and accepted.heard is not None and confirmed:
            state = _leased(state, accepted.heard)
        heard, heard_connection = state.heard, state.heard_connection
        if not same and self.breakage != "any connection":
            heard = None
        elif state.sent_since:
            later = self.breakage == "counts from the later statistics"
            heard, heard_connection = state.now if later else state.sampled, state.connection
        return state._replace(
            accepted=None,
            heard=heard,
            heard_connection=heard_connection,
            sampled=state.now,
            sampled_connection=state.connection,
            sent_since=False,
        )

    def _taken(self, state: LeaseState) -> tuple[str, LeaseState]:
        request, rest = state.on_way[0], state.on_way[1:]
        state = state._replace(on_way=rest)
        if not state.is_owner:
            return "a request is refused", state
        if request.number == 0:
            return "a heartbeat is taken", state._replace(session_ends=state.now + SESSION)
        if self.protocol == "classic":
            state = state._replace(session_ends=state.now + SESSION)
        return "a commit is taken", state._replace(answers=(*state.answers, request))

    def _answered(self, state: LeaseState) -> tuple[str, LeaseState]:
        answer, rest = state.answers[0], state.answers[1:]
        state = state._replace(answers=rest)
        what = "a commit is answered"
        if self.breakage == "counts from the answer":
            return what, _leased(state, state.now)
        if self.breakage == "takes any answer for the last commit's":
            return what, _leased(state, state.last_sent)
        if self.protocol == "classic" or self.breakage == "counts from the commit":
            return what, _leased(state, answer.sent)
        if self.breakage == "heartbeat known after the commit":
            answer = answer._replace(heard=state.heard, connection=state.heard_connection)
        if self.breakage == "not confirmed" and answer.heard is not None:
            return what, _leased(state, answer.heard)
        return what, state._replace(accepted=state.accepted or answer)


def _leased(state: LeaseState, since: int) -> LeaseState:
    return state._replace(lease_ends=max(state.lease_ends, since + REACH))
