"""The operators' sheet is read, changed, and replaced where nobody else came first."""

from collections.abc import Callable

from actors.model.errors import StoreUnavailable
from actors.model.operator_sheet import OperatorSheet
from actors.ports.oversight import OversightStore
from scheduler.futures.answers import answered

_TRIES_MAX = 20


class SheetChanges:
    """Changes the sheet of an installation."""

    def __init__(self, store: OversightStore) -> None:
        self._store = store

    def sheet(self) -> OperatorSheet:
        """Return the sheet that is in force."""
        return answered(self._store.read_sheet(OperatorSheet()))

    def change(self, changed: Callable[[OperatorSheet], OperatorSheet]) -> OperatorSheet:
        """Replace the sheet by what ``changed`` makes of it, and return that.

        ``changed`` is called again where somebody else was first.  What changes nothing is not
        written.  Raises StoreUnavailable where others are first all the time.
        """
        for _ in range(_TRIES_MAX):
            known = self.sheet()
            sheet = changed(known)
            if (sheet.pauses, sheet.limits) == (known.pauses, known.limits):
                return known
            if answered(self._store.replace_sheet(sheet)):
                return sheet
        raise StoreUnavailable("others change pauses and limits all the time; try again")
