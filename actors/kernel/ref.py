"""Addresses of actors: one actor knows only this of another."""

from abc import abstractmethod
from typing import Any, Protocol

import pykka


class Recipient(Protocol):
    """The receiver of an answer."""

    def tell(self, message: object) -> None:
        """Take a message; never blocks."""


class NearRecipient(Recipient, Protocol):
    """An actor of the same system, which may get urgent messages."""

    def tell_first(self, message: object) -> None:
        """Take a message before all waiting ones, but behind those told so before; only actors call
        it.
        """


class Ref(pykka.ActorRef[Any]):
    """Address of one actor; telling a stopped one does nothing.

    pykka's own ref raises for a dead actor.  Here a tree is thrown away while timers, store
    calls and worker threads still answer it, so a late message is the normal case.
    """

    __slots__ = ()

    @abstractmethod
    def is_alive(self) -> bool:
        """True if the actor still receives messages."""

    @abstractmethod
    def tell(self, message: object) -> None:
        """Leave ``message`` in the actor's mailbox; never blocks, any thread may call it."""

    @abstractmethod
    def tell_first(self, message: object) -> None:
        """Leave ``message`` before all waiting ones, but behind those told so before; only actors
        may call it.
        """

    @abstractmethod
    def tell_last(self, message: object) -> None:
        """Leave ``message`` behind all messages that wait for any actor, and those that come
        meanwhile; only actors may call it.
        """
