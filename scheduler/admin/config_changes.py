"""Changes to the operator config: it is read, changed, and replaced if nobody else changed it
meanwhile.
"""

from collections.abc import Callable

from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.values.errors import StoreUnavailable
from hourhand.actors.ports.oversight import OversightStore
from hourhand.scheduler.runtime.answers import answered

_TRIES_MAX = 20


class ConfigChanges:
    """Changes the operator config of an installation."""

    def __init__(self, store: OversightStore) -> None:
        self._store = store

    def config(self) -> OperatorConfig:
        """Return the operator config that is in force."""
        return answered(self._store.read_config(OperatorConfig()))

    def change(self, changed: Callable[[OperatorConfig], OperatorConfig]) -> OperatorConfig:
        """Replace the operator config by the result of ``changed``, and return that.

        ``changed`` is called again if another process was faster. A config without changes is not
        written. Raises StoreUnavailable if others are faster every time.
        """
        for _ in range(_TRIES_MAX):
            known = self.config()
            config = changed(known)
            if (config.pauses, config.limits) == (known.pauses, known.limits):
                return known
            if answered(self._store.replace_config(config)):
                return config
        raise StoreUnavailable("others change pauses and limits all the time; try again")
