"""Work of one actor that takes several answers, one piece after another.

An operation is a generator: it yields a future or a question to another actor, and is
resumed with the answer, so it reads from top to bottom and no two of them overlap.
"""

from collections import deque
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any, TypeVar

import msgspec

from hourhand.actors.kernel.context import ActorContext
from hourhand.actors.kernel.ref import Recipient


class Ask(msgspec.Struct, frozen=True):
    """A question to another actor; its answer resumes the operation."""

    recipient: Recipient
    question: object


class Resolved(msgspec.Struct, frozen=True):
    """Told to the actor: the future its operation waits for has resolved."""

    value: Any


_Result = TypeVar("_Result")
Steps = Generator[Ask | Future[Any], Any, _Result]
"""A part of an operation that returns something."""
Operation = Steps[None]


class Operations:
    """The operations of one actor: at most one under way, the others in order behind it."""

    def __init__(self, context: ActorContext) -> None:
        self._context = context
        self._waiting: deque[Operation] = deque()
        self._current: Operation | None = None

    def begin(self, operation: Operation) -> None:
        """Run an operation behind those already begun."""
        self._waiting.append(operation)
        self._run_next()

    def resume(self, answer: object) -> None:
        """Run the current operation up to its next wait."""
        self._step(answer)
        self._run_next()

    def _step(self, answer: object) -> None:
        assert self._current is not None, "an answer came to nobody's question"
        try:
            waited_for = self._current.send(answer)
        except StopIteration:
            self._current = None
            return
        if isinstance(waited_for, Ask):
            waited_for.recipient.tell(waited_for.question)
        else:
            self._context.pipe(waited_for, Resolved)

    def _run_next(self) -> None:
        while self._current is None and self._waiting:
            self._current = self._waiting.popleft()
            self._step(None)
