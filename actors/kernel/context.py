"""The kernel's object for each actor, and the services of an actor system.

One small object an actor is both its address and its place in the tree: no uuid, no lock, no
registry entry, no bound method, because an ordering id that is busy for a millisecond gets two
actors of its own, and the collector walks all of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from hourhand.actors.kernel.ref import Ref
from hourhand.actors.ports.clock import Clock


class Receiver(Protocol):
    """The methods of an actor that the kernel calls."""

    def on_receive(self, message: Any) -> None:
        """Handle one message."""

    def on_start(self) -> None:
        """Begin; runs before the first message."""

    def on_stop(self) -> None:
        """Release resources that would outlive the actor; no message follows."""


class Timer:
    """One message to an actor at a monotonic time; ``cancel`` keeps it from being sent."""

    __slots__ = ("cancelled", "context", "message")

    def __init__(self, context: ActorContext, message: object) -> None:
        self.context = context
        self.message = message
        self.cancelled = False

    def cancel(self) -> None:
        """Do not send the message; harmless if it was already sent."""
        self.cancelled = True


class Look:
    """Base of a timer's message after which an actor only cleans up: it may come late, and once in
    place of a hundred times, without an effect on tasks.
    """

    __slots__ = ()


class Services(Protocol):
    """The services of an actor system for the contexts of its actors."""

    clock: Clock
    rng: random.Random

    def post(self, context: ActorContext, message: object) -> None:
        """Put a message in an actor's mailbox, from any thread."""

    def post_first(self, context: ActorContext, message: object) -> None:
        """Put a message before all others that wait, from an actor."""

    def post_last(self, context: ActorContext, message: object) -> None:
        """Put a message behind all waiting ones, and those that come meanwhile, from an actor."""

    def set_timer(self, delay_ms: float, context: ActorContext, message: object) -> Timer:
        """Post a message after a monotonic delay."""


class Signal:
    """A message to the kernel itself, not to the actor's role."""

    __slots__ = ()


class Start(Signal):
    """First message of a root: begin."""

    __slots__ = ()


class Stop(Signal):
    """Told to a root from outside its system's thread: stop the tree."""

    __slots__ = ()


class Resume(Signal):
    """Told to an actor: continue a task of the kernel's own, on the system's thread."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[], None]) -> None:
        self.run = run


class RequestFailed(Signal):
    """Told to an actor instead of an answer: the request failed."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Retired:
    """Replaces a stopped actor."""

    def on_receive(self, message: Any) -> None:
        """Drop the message."""

    def on_start(self) -> None:
        """Do nothing."""

    def on_stop(self) -> None:
        """Do nothing."""


_RETIRED = _Retired()


class ActorContext(Ref):
    """One actor's place in its tree; others know it as its ref."""

    __slots__ = (
        "_services",
        "actor",
        "alive",
        "children",
        "condemned",
        "mailbox",
        "parent",
        "post",
        "receive",
        "role",
    )

    def __init__(
        self, services: Services, actor: Receiver, parent: ActorContext | None = None
    ) -> None:
        self._services = services
        self.post: Callable[[ActorContext, object], None]
        self.post = services.post if parent is None else parent.post
        self.actor = actor
        self.role = type(actor)
        # On the class: a bound method for each actor would be one object more.
        self.receive: Callable[[Any, Any], None] = self.role.on_receive
        self.parent = parent
        self.children: dict[ActorContext, None] | None = None
        self.alive = True
        self.condemned = False
        """For a root only: its owner has asked for its end, and must not be told of its
        failures."""
        self.mailbox: Any = None
        """Used by the simulated system only, which picks the next actor by seed."""

    @property
    def actor_urn(self) -> str:  # type: ignore[override]
        """The actor's path from the root, for logs; not unique over time."""
        return self.path

    @property
    def actor_class(self) -> type[Any]:  # type: ignore[override]
        """The actor's role."""
        return self.role

    def is_alive(self) -> bool:
        """True if the actor still receives messages."""
        return self.alive

    def tell(self, message: object) -> None:
        """Leave ``message`` in the actor's mailbox; never blocks, any thread may call it."""
        self.post(self, message)

    def tell_first(self, message: object) -> None:
        """Leave ``message`` before all waiting ones, but behind those told so before; only actors
        may call it.
        """
        self._services.post_first(self, message)

    def tell_last(self, message: object) -> None:
        """Leave ``message`` behind all messages that wait for any actor, and those that come
        meanwhile; only actors may call it.
        """
        self._services.post_last(self, message)

    @property
    def path(self) -> str:
        """Names from the root to this actor."""
        name = self.role.__name__
        return f"{self.parent.path}/{name}" if self.parent else name

    @property
    def clock(self) -> Clock:
        """The system's clock."""
        return self._services.clock

    @property
    def rng(self) -> random.Random:
        """The system's random numbers, seeded in a simulation."""
        return self._services.rng

    def tell_self(self, message: object) -> None:
        """Put a message behind those already waiting for this actor."""
        self.post(self, message)

    def after(self, delay_ms: float, message: object) -> Timer:
        """Receive ``message`` after a monotonic delay, unless the timer is cancelled."""
        return self._services.set_timer(delay_ms, self, message)

    def pipe(
        self,
        future: Future[Any],
        message_of: Callable[[Any], object],
        failed: Callable[[BaseException], object] = RequestFailed,
    ) -> None:
        """Receive ``message_of(result)`` when the future resolves; if it fails, receive
        ``failed(error)``, or fail as well.
        """

        def post_result(done: Future[Any]) -> None:
            # Every error here must reach the actor: a future's callbacks swallow it, and the actor
            # would wait for ever.
            try:
                message = message_of(done.result())
            except BaseException as error:  # noqa: BLE001
                message = failed(error)
            self.post(self, message)

        future.add_done_callback(post_result)

    def retire(self) -> None:
        """Drop the actor, so that both are freed at once and not by the collector."""
        assert not self.alive, f"{self.path} still receives messages"
        self.actor = _RETIRED
        self.receive = _Retired.on_receive

    def adopt_child(self, actor: Receiver) -> ActorContext:
        """Return the context of a new child actor."""
        assert self.alive, f"{self.path} has ended and has no children"
        child = ActorContext(self._services, actor, self)
        if self.children is None:
            self.children = {}
        self.children[child] = None
        return child


def context_of(ref: Ref) -> ActorContext:
    """Return the context behind an address; only the kernel may ask."""
    assert isinstance(ref, ActorContext), f"{ref!r} is not an address of this kernel"
    return ref
