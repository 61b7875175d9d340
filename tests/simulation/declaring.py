"""The declarations of one simulated node, as ``Declaring`` makes them in a thread of its own.

It decides when a node declares its set, and looks at it again; what is due then is decided by
Hourhand's own code.
"""

import asyncio
from collections.abc import Callable

from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.client.declaring import AGAIN_S, due_declaration
from hourhand.scheduler.runtime.awaiting import settled
from hourhand.scheduler.services.recurring.declared import (
    RENEW_MS,
    Declaration,
    declaration_task,
    declared_of,
    name_of_owner,
)
from hourhand.scheduler.services.system.system_tasks import SystemDependencies
from tests.simulation.declared_sets import OWNER
from tests.simulation.loop import SimulatedLoop


class NodeDeclaring:
    """Declares the set of one process, if it has any."""

    def __init__(
        self,
        declared: Callable[[], Declaration] | None,
        dependencies: SystemDependencies,
        clock: Clock,
        loop: SimulatedLoop,
        unique: Callable[[int], str],
    ) -> None:
        """``unique`` returns a uniqueness key for a time: no other one could be replayed."""
        self._declared, self._unique = declared, unique
        self._dependencies = dependencies
        self._clock = clock
        self._loop = loop
        self._ours: Declaration | None = None
        self._is_declared = False
        self._look_at_ms = 0.0
        self._under_way: asyncio.Task[None] | None = None

    def step(self) -> None:
        """Declare or look, where it is time for that."""
        if self._declared is None or self._clock.monotonic_ms() < self._look_at_ms:
            return
        if self._under_way is None or self._under_way.done():
            if self._ours is None:
                self._ours = self._declared()
            self._under_way = self._loop.begin(self._look(self._ours), "declare")

    async def _look(self, ours: Declaration) -> None:
        """Declare the set at the start of the process, and whatever is due later."""
        book, pause_s = self._dependencies.definitions, RENEW_MS / 1000
        due: Declaration | None = ours
        try:
            if self._is_declared:
                row = await settled(book.find(name_of_owner(OWNER)))
                due = due_declaration(ours, declared_of(row), self._clock.now_ms())
            if due is not None:
                now_ms = self._clock.now_ms()
                task = declaration_task(OWNER, due, now_ms)
                task = task.model_copy(update={"uniqueness_key": self._unique(now_ms)})
                await settled(self._dependencies.appender.append(task))
            self._is_declared = True
        except HourhandError:
            pause_s = AGAIN_S
        self._look_at_ms = self._clock.monotonic_ms() + 1000 * pause_s
