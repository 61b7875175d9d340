"""The real actor system: one thread runs every actor of a node.

The only module in ``actors`` that starts a thread.  One dispatcher means no locks and no
handover between actors; blocking work never happens here, it comes back as a message.
"""

import logging
import queue
import random
import threading
from collections import deque

from hourhand.actors.kernel.actor import Actor, bind_actor
from hourhand.actors.kernel.context import ActorContext, Start, Stop, Timer, context_of
from hourhand.actors.kernel.ref import Ref
from hourhand.actors.kernel.supervision import FailureListener, deliver, fail_tree, logger
from hourhand.actors.kernel.timers import TimerQueue
from hourhand.actors.model.values.display import log_raised
from hourhand.actors.ports.clock import Clock

MESSAGES_BETWEEN_TIMERS = 4
"""A flood of messages may delay a due timer by one more than this; some take milliseconds."""
ROUNDS_BETWEEN_LAST = 20
"""Number of rounds of messages after which a message that was told last is handled, however many
others wait."""
LAST_PAUSE_S = 0.001
"""Before each of these the dispatcher waits this long for other messages: other threads run
meanwhile, and their messages go first."""
SLEEP_S_MAX = 3_600.0
"""Longest wait in one call: a retry may ask for centuries, which a queue does not accept."""


class ThreadedSystem:
    """Actors on one dispatcher thread; implements ``context.Services``."""

    def __init__(self, clock: Clock, on_failure: FailureListener, name: str = "hourhand") -> None:
        self.clock = clock
        self.rng = random.Random()  # noqa: S311 - spreads load, guards no secret
        self._on_failure = on_failure
        self._queue: queue.SimpleQueue[tuple[ActorContext, object] | None] = queue.SimpleQueue()
        self._first: deque[tuple[ActorContext, object]] = deque()
        """Messages in front of all waiting ones: only actors send them, so the dispatcher is
        awake."""
        self._last: deque[tuple[ActorContext, object]] = deque()
        """Messages behind all others: large work in parts, each of which begins the next."""
        self._last_rounds = 0
        """Rounds since one of those was handled."""
        self._timers = TimerQueue()
        self._roots: list[ActorContext] = []
        self.rounds = 0
        """Grows with every round of work; odd during one. Read to find out whether the dispatcher
        hangs."""
        self._thread = threading.Thread(target=self._run, name=f"{name}-dispatcher", daemon=True)
        self._thread.start()

    def spawn_root(self, actor: Actor) -> Ref:
        """Start a tree; its root begins on the dispatcher."""
        context = ActorContext(self, actor)
        bind_actor(actor, context)
        self._roots = [*(root for root in self._roots if root.alive), context]
        self.post(context, Start())
        return context

    def stop_tree(self, root: Ref) -> None:
        """Stop a tree from outside, behind the messages already queued to it.

        Its failures are no longer reported: they would be taken for those of the next tree.
        """
        context = context_of(root)
        context.condemned = True
        self.post(context, Stop())

    def post(self, context: ActorContext, message: object) -> None:
        """Put a message in an actor's mailbox, from any thread."""
        self._queue.put((context, message))

    def post_first(self, context: ActorContext, message: object) -> None:
        """Put a message before all others that wait; called by actors only."""
        assert threading.current_thread() is self._thread, "nothing would wake the dispatcher"
        self._first.append((context, message))

    def post_last(self, context: ActorContext, message: object) -> None:
        """Put a message behind all waiting ones, and those that come meanwhile; called by actors
        only.
        """
        assert threading.current_thread() is self._thread, "nothing would wake the dispatcher"
        self._last.append((context, message))

    @property
    def waiting_messages(self) -> int:
        """Number of messages in the mailboxes, which are one queue."""
        return self._queue.qsize() + len(self._first) + len(self._last)

    def set_timer(self, delay_ms: float, context: ActorContext, message: object) -> Timer:
        """Post a message after a monotonic delay; called by actors only."""
        assert threading.current_thread() is self._thread, "the timers have no lock"
        return self._timers.add(self.clock.monotonic_ms() + delay_ms, context, message)

    def close(self, timeout_ms: float = 5_000) -> None:
        """End the dispatcher after the messages already queued, without those told last."""
        self._queue.put(None)
        self._thread.join(timeout_ms / 1000)

    def _run(self) -> None:
        """Dispatch until the system is closed, after any error of a message.

        Without this thread no future of the node would be resolved, and nothing would report that.
        """
        while True:
            try:
                self._dispatch()
            except BaseException as error:  # noqa: BLE001 - it is logged
                self._fail_all(error)
                log_raised(
                    logger,
                    "the dispatcher failed outside of an actor; its trees are rebuilt: please"
                    " report this",
                    level=logging.CRITICAL,
                )
            else:
                return

    def _fail_all(self, error: BaseException) -> None:
        for root in self._roots:
            try:
                fail_tree(root, error, self._on_failure)
            except BaseException:  # noqa: BLE001 - it is logged
                log_raised(logger, "the failure of %s could not be told", root.path)

    def _dispatch(self) -> None:
        get_nowait, handle = self._queue.get_nowait, self._handle
        while True:
            is_idle = True
            try:
                item = self._queue.get(timeout=self._sleep_s())
                is_idle = False
                self.rounds |= 1
                for _ in range(MESSAGES_BETWEEN_TIMERS):
                    if item is None:
                        return
                    handle(item[0], item[1])
                    item = get_nowait()
                if item is None:
                    return
                handle(item[0], item[1])
            except queue.Empty:
                pass
            self.rounds |= 1
            if self._last:
                self._handle_last(is_idle=is_idle)
            self._fire_due()
            self.rounds += 1

    def _handle(self, context: ActorContext, message: object) -> None:
        """Deliver a message, and the messages in front of all waiting ones."""
        deliver(context, message, self._on_failure)
        first = self._first
        while first:
            deliver(*first.popleft(), self._on_failure)

    def _handle_last(self, *, is_idle: bool) -> None:
        """Handle one message that was told last, if nothing else came or many rounds passed."""
        self._last_rounds += 1
        if is_idle or self._last_rounds >= ROUNDS_BETWEEN_LAST:
            self._last_rounds = 0
            self._handle(*self._last.popleft())

    def _sleep_s(self) -> float | None:
        longest_s = LAST_PAUSE_S if self._last else SLEEP_S_MAX
        due_ms = self._timers.next_due_ms()
        if due_ms is None:
            return longest_s if self._last else None
        return min(max(0.0, due_ms - self.clock.monotonic_ms()) / 1000, longest_s)

    def _fire_due(self) -> None:
        now_ms = self.clock.monotonic_ms()
        while timer := self._timers.pop_due(now_ms):
            self._handle(timer.context, timer.message)
