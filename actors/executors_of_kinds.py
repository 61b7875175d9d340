"""The executors of one busy ordering id, one for each kind of its tasks.

Decides which object runs a task.  Never calls user code.
"""

import msgspec

from hourhand.actors.ports.effects import Effects
from hourhand.actors.ports.runner import Executable


class ExecutorsOfKinds(msgspec.Struct, eq=False):
    """The executors that an ordering id keeps while it is busy.

    They serve one task at a time: if an id runs several tasks at once, each task has its own set.
    Most ids have one kind, so only a second kind needs a dictionary.
    """

    kind: str | None = None
    """Kind of the first executor."""
    executor: Executable | None = None
    others: dict[str | None, Executable] | None = None

    def of(self, kind: str | None, ordering_id: str, effects: Effects) -> Executable:
        """Return the executor of a kind; raises CannotRunHere if this node has none for it."""
        executor = self.executor
        if executor is None:
            executor = self.executor = effects.make_executor(ordering_id, kind)
            self.kind = kind
        elif kind != self.kind:
            executor = self._of_another(kind, ordering_id, effects)
        return executor

    def _of_another(self, kind: str | None, ordering_id: str, effects: Effects) -> Executable:
        if self.others is None:
            self.others = {}
        known = self.others.get(kind)
        if known is None:
            known = self.others[kind] = effects.make_executor(ordering_id, kind)
        return known
