"""Whether the broker answers: asked on a thread of its own, so that no probe waits behind another.

Decides nothing of the answer.  While one question is open nobody asks another: a broker that is
away for hours has one to answer when it is back.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class Asking:
    """Asks one question, again and again; used from any thread."""

    def __init__(self, question: Callable[[], Any]) -> None:
        self._question = question
        self._lock = threading.Lock()
        self._asked: Future[Any] | None = None

    def ask(self) -> "Future[Any]":
        """Ask, or join the one who asks already."""
        with self._lock:
            if self._asked is None or self._asked.done():
                asked: Future[Any] = Future()
                self._asked = asked
                # A daemon: a process that ends does not wait for a broker that is away.
                threading.Thread(
                    target=self._answer, args=(asked,), name="hourhand-asking", daemon=True
                ).start()
            return self._asked

    def _answer(self, asked: "Future[Any]") -> None:
        try:
            asked.set_result(self._question())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            asked.set_exception(error)
