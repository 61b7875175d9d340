"""The base of every role: pykka's actor without a thread of its own.

pykka gives the vocabulary (actor, ref, tell, ask) and its extension points; this class fills them
so that all actors share one dispatcher. ``__init__`` of a subclass need not call this one's: the
kernel keeps only the context that ``spawn`` sets.
"""

from abc import abstractmethod
from typing import Any, NoReturn, Protocol

import pykka

from hourhand.actors.kernel.context import ActorContext, context_of
from hourhand.actors.kernel.ref import Ref
from hourhand.actors.kernel.supervision import stop_tree


class Actor(pykka.Actor):
    """One owner of one piece of state; handles one message at a time."""

    _context: ActorContext

    def __init__(self) -> None:
        """Keep nothing: pykka's own state (uuid, event, inbox) is not needed here."""

    @abstractmethod
    def on_receive(self, message: Any) -> None:
        """Handle one message; any error stops the whole tree."""

    def on_start(self) -> None:
        """Begin; runs once, before the first message."""

    def on_stop(self) -> None:
        """Release resources that would outlive the actor; no message follows."""

    def spawn(self, child: "Actor", first_message: object = None) -> Ref:
        """Make ``child`` a child of this actor and start it.

        It handles ``first_message`` at once: for a child that lives as long as one piece of
        work, the way through the mailbox would be a large part of its life.
        """
        context = self._context.adopt_child(child)
        bind_actor(child, context)
        child._start_actor_loop()  # noqa: SLF001 - as in bind_actor
        if first_message is not None:
            context.receive(child, first_message)
        return context

    def stop_child(self, child: Ref) -> None:
        """Stop a child and everything below it at once; its messages are dropped."""
        assert context_of(child).parent is self._context, "only a parent stops a child"
        stop_tree(context_of(child))

    @property
    def actor_ref(self) -> Any:
        """The actor's own address."""
        return self._context

    @classmethod
    def start(cls, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Raise an error: an actor belongs to a parent or to a system."""
        raise TypeError(f"{cls.__name__} is started by its parent's spawn, not by itself")

    def _start_actor_loop(self) -> None:
        self.on_start()

    @staticmethod
    def _create_actor_inbox() -> NoReturn:
        raise TypeError("the system's dispatcher holds the messages of all its actors")

    @staticmethod
    def _create_future() -> pykka.ThreadingFuture[Any]:
        return pykka.ThreadingFuture()


def bind_actor(actor: Actor, context: ActorContext) -> None:
    """Give an actor its place in its tree."""
    assert context.actor is actor, "a place belongs to one actor"
    actor._context = context  # noqa: SLF001 - context and actor are one kernel


class System(Protocol):
    """An actor system for the owner of a tree, real or simulated."""

    def spawn_root(self, actor: Actor) -> Ref:
        """Start a tree."""

    def stop_tree(self, root: Ref) -> None:
        """Stop a tree."""
