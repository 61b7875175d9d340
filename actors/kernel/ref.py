"""Addresses of actors: all that one actor may know of another."""

from abc import abstractmethod
from typing import Any, Protocol

import pykka


class Recipient(Protocol):
    """The receiver of an answer."""

    def tell(self, message: object) -> None:
        """Take a message; never blocks."""


class NearRecipient(Recipient, Protocol):
    """An actor of the same system, which may be told what is urgent."""

    def tell_first(self, message: object) -> None:
        """Take a message before all that waits but what was told so before; only actors tell so."""


class Ref(pykka.ActorRef[Any]):
    """Address of one actor; telling a stopped one does nothing.

    pykka's own ref raises for a dead actor.  Here a tree is thrown away while timers, store
    calls and worker threads still answer it, so a late message is the normal case.
    """

    __slots__ = ()

    @abstractmethod
    def is_alive(self) -> bool:
        """Whether the actor still receives messages."""

    @abstractmethod
    def tell(self, message: object) -> None:
        """Leave ``message`` in the actor's mailbox; never blocks, any thread may call it."""

    @abstractmethod
    def tell_first(self, message: object) -> None:
        """Leave ``message`` before all that waits but what was told so before; actors alone may
        call it.
        """

    @abstractmethod
    def tell_last(self, message: object) -> None:
        """Leave ``message`` behind all that waits for any actor, and what comes meanwhile; actors
        alone may call it.
        """
