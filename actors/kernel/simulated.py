"""The simulated actor system: the same actors in the caller's thread, under a virtual clock.

It decides which actor runs next: the one with the oldest message, or, given random numbers,
any that has one.  Messages of one mailbox keep their order either way, which is all the real
dispatcher promises too.  It never waits.
"""

import math
import random
from collections import deque

from hourhand.actors.kernel.actor import Actor, bind_actor
from hourhand.actors.kernel.context import ActorContext, Look, Start, Timer, context_of
from hourhand.actors.kernel.ref import Ref
from hourhand.actors.kernel.supervision import FailureListener, deliver, stop_tree
from hourhand.actors.kernel.timers import TimerQueue
from hourhand.actors.ports.clock import Clock


class VirtualClock:
    """A clock that moves only when told to; its wall part can also be set apart."""

    def __init__(self, now_ms: int = 1_767_225_600_000) -> None:
        self._wall_at_start_ms = now_ms
        self._elapsed_ms = 0.0

    def now_ms(self) -> int:
        """Return the virtual wall time."""
        return int(self._wall_at_start_ms + self._elapsed_ms)

    def monotonic_ms(self) -> float:
        """Return the virtual time passed since the start."""
        return self._elapsed_ms

    def advance(self, delta_ms: float) -> None:
        """Let time pass on both clocks."""
        if delta_ms < 0:
            raise ValueError(f"time cannot pass backward, by {delta_ms} ms; step_wall can")
        self._elapsed_ms += delta_ms

    def step_wall(self, delta_ms: int) -> None:
        """Set the wall clock forward or back while no time passes."""
        self._wall_at_start_ms += delta_ms


class _Mailbox:
    """The messages of one actor, in the order in which it handles them."""

    __slots__ = ("first", "last", "others")

    def __init__(self) -> None:
        self.first: deque[object] = deque()
        self.others: deque[object] = deque()
        self.last: deque[object] = deque()

    def __bool__(self) -> bool:
        return bool(self.first or self.others or self.last)

    def popleft(self) -> object:
        return (self.first or self.others or self.last).popleft()


class SimulatedSystem:
    """Actors run one message at a time by ``run_one``; implements ``context.Services``."""

    def __init__(
        self,
        clock: Clock,
        on_failure: FailureListener,
        rng: random.Random | None = None,
    ) -> None:
        self.clock = clock
        self.rng = rng or random.Random(0)  # noqa: S311 - spreads load, guards no secret
        self._picks_at_random = rng is not None
        self._on_failure = on_failure
        self._ready: deque[ActorContext] = deque()
        self._timers = TimerQueue()
        self._looks = TimerQueue()
        self._no_timer_until_ms = math.inf
        """No timer is due before."""
        self._closed = False

    def spawn_root(self, actor: Actor) -> Ref:
        """Start a tree; its root begins when it is first picked."""
        context = ActorContext(self, actor)
        bind_actor(actor, context)
        self.post(context, Start())
        return context

    def stop_tree(self, root: Ref) -> None:
        """Stop a tree at once."""
        stop_tree(context_of(root))

    def post(self, context: ActorContext, message: object) -> None:
        """Put a message in an actor's mailbox."""
        self._made_ready(context).others.append(message)

    def post_last(self, context: ActorContext, message: object) -> None:
        """Put a message behind all others of an actor, and those that come meanwhile."""
        self._made_ready(context).last.append(message)

    def post_first(self, context: ActorContext, message: object) -> None:
        """Put a message before all others of an actor; it passes the other actors' by chance."""
        self._made_ready(context, first=True).first.append(message)

    def set_timer(self, delay_ms: float, context: ActorContext, message: object) -> Timer:
        """Post a message after a virtual delay."""
        queue = self._looks if isinstance(message, Look) else self._timers
        due_ms = self.clock.monotonic_ms() + delay_ms
        self._no_timer_until_ms = min(self._no_timer_until_ms, due_ms)
        return queue.add(due_ms, context, message)

    def run_one(self) -> bool:
        """Deliver one message; return False where no mailbox has any and no timer is due."""
        now_ms, ready = self.clock.monotonic_ms(), self._ready
        if now_ms >= self._no_timer_until_ms:
            self._post_due(now_ms)
        if not ready:
            return False
        if self._picks_at_random:
            ready.rotate(-self.rng.randrange(len(ready)))
        context = ready.popleft()
        mailbox = context.mailbox
        assert mailbox, "what is ready has a message"
        message = mailbox.popleft()
        if self._picks_at_random and mailbox:
            ready.append(context)
        if isinstance(message, Timer):
            # It may have been cancelled since it fell due, by what was delivered before it.
            if message.cancelled:
                return True
            message = message.message
        deliver(context, message, self._on_failure)
        return True

    def _post_due(self, now_ms: float) -> None:
        """Post the messages of the timers that are due, the earliest first."""
        while (due_ms := self.next_timer_ms()) is not None and due_ms <= now_ms:
            queue = self._timers if self._timers.next_due_ms() == due_ms else self._looks
            timer = queue.pop_due(now_ms)
            assert timer is not None, "the earliest timer is due"
            self.post(timer.context, timer)
        self._no_timer_until_ms = math.inf if due_ms is None else due_ms

    def _made_ready(self, context: ActorContext, *, first: bool = False) -> _Mailbox:
        """Return the mailbox of an actor that gets a message; one without a reader once closed."""
        if self._closed:
            return _Mailbox()
        mailbox = context.mailbox
        if mailbox is None:
            mailbox = context.mailbox = _Mailbox()
        assert isinstance(mailbox, _Mailbox), "an actor belongs to one system"
        if not self._picks_at_random or not mailbox:
            (self._ready.appendleft if first else self._ready.append)(context)
        return mailbox

    def next_timer_ms(self) -> float | None:
        """Return the monotonic time of the earliest timer; None without timers."""
        timer_ms, look_ms = self._timers.next_due_ms(), self._looks.next_due_ms()
        if timer_ms is None or (look_ms is not None and look_ms < timer_ms):
            return look_ms
        return timer_ms

    def next_deadline_ms(self) -> float | None:
        """Return the monotonic time of the earliest timer that does more than look; None without
        such timers.
        """
        return self._timers.next_due_ms()

    def close(self) -> None:
        """Forget all messages and timers; nothing runs any more."""
        self._closed = True
        self._ready.clear()
        self._timers, self._looks = TimerQueue(), TimerQueue()
