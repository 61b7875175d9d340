"""The checkpoints of one attempt, sealed on their way to the store and opened on their way back.

Decides where codecs are called: by the code that makes or reads a checkpoint, never by the node.
"""

import asyncio

from hourhand.actors.model.task.checkpoint_value import AttemptCheckpoints
from hourhand.actors.model.task.task import Task
from hourhand.scheduler.payloads.codecs import PayloadCodecs


class SealedCheckpoints:
    """Implements ``AttemptCheckpoints`` in front of those of the node."""

    def __init__(self, payloads: PayloadCodecs, task: Task, behind: AttemptCheckpoints) -> None:
        self._payloads, self._task, self._behind = payloads, task, behind
        self._opened: bytes | None = None

    @property
    def found(self) -> bytes | None:
        """The text of the newest checkpoint of the attempts before; raises what opening it does."""
        if self._opened is None and (text := self._behind.found) is not None:
            self._opened = self._payloads.opened_checkpoint(text, self._task)
        return self._opened

    @property
    def snoozed(self) -> int:
        """Times that the attempt was snoozed so far."""
        return self._behind.snoozed

    def make(self, text: bytes) -> None:
        """Take a text; raises what sealing it does."""
        self._behind.make(self._payloads.sealed_checkpoint(text, self._task))

    async def open_before(self) -> None:
        """Open what is there beside the event loop, where a codec may wait; raises as that does."""
        if self._payloads.blocks and self._behind.found is not None:
            await asyncio.to_thread(lambda: self.found)
