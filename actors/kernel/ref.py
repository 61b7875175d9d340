"""Addresses of actors: all that one actor may know of another."""

from typing import Any, Protocol

import pykka

from actors.kernel.context import ActorContext


class Recipient(Protocol):
    """Whoever an answer goes to."""

    def tell(self, message: object) -> None:
        """Take a message; never blocks."""


class Ref(pykka.ActorRef[Any]):
    """Address of one actor; telling a stopped one does nothing.

    pykka's own ref raises for a dead actor.  Here a tree is thrown away while timers, store
    calls and worker threads still answer it, so a late message is the normal case.
    """

    def __init__(self, context: ActorContext) -> None:
        self._context = context
        self.actor_class = type(context.actor)

    @property
    def actor_urn(self) -> str:  # type: ignore[override]
        """The actor's path from the root, for logs; not unique over time."""
        return self._context.path

    def is_alive(self) -> bool:
        """Whether the actor still receives messages."""
        return self._context.alive

    def tell(self, message: object) -> None:
        """Leave ``message`` in the actor's mailbox; never blocks, any thread may call it."""
        self._context.post(self._context, message)
