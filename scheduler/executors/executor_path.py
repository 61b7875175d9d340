"""From a user's name for an executor, a path such as ``invoices:SendInvoice`` or a class, to a
factory of executors.

Names that can never run a task are refused before anything is opened.
"""

import importlib
import inspect
import logging
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from hourhand.actors.model.execution.executor_attributes import attribute_complaint
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.values.display import log_raised
from hourhand.actors.model.values.errors import InvalidExecutor
from hourhand.scheduler.runtime.user_code import is_interrupt

logger = logging.getLogger("hourhand.node")

ExecutorFactory = Callable[[], TaskExecutor]


class TriedFactory:
    """A function that makes executors, and the class of the one that it made."""

    __slots__ = ("func", "made")

    def __init__(self, func: ExecutorFactory, made: type[TaskExecutor]) -> None:
        self.func = func
        self.made = made

    def __call__(self) -> TaskExecutor:
        return self.func()


def found_at(path: str) -> object:
    """Import and return the object at ``module:Name``.

    The working folder is searched first, as with ``python -m``. Raises InvalidExecutor that says
    which part of the path is wrong.
    """
    module_name, colon, attribute = path.partition(":")
    if not (colon and module_name and attribute):
        raise InvalidExecutor(
            f"{path!r} is not an executor path: expected module:Class, such as invoices:SendInvoice"
        )
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: object = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise InvalidExecutor(
            f"{path!r}: cannot import {module_name!r}: {type(error).__name__}: {error}"
            f"{_hidden_hint(module_name, Path(folder))}"
        ) from error
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            hint = _hidden_hint(module_name, Path(folder))
            raise InvalidExecutor(f"{path!r}: {module_name!r} has no {attribute!r}{hint}") from None
    return found


def _hidden_hint(module_name: str, folder: Path) -> str:
    """Return advice if the user's module has the name of Hourhand's package."""
    top = module_name.partition(".")[0]
    if top != "hourhand":
        return ""
    own = next((own for own in (folder / f"{top}.py", folder / top) if own.exists()), None)
    found = f"; {own} is hidden by it: rename that" if own else ""
    return f" ({top!r} is the package of Hourhand{found})"


def tried_factory(name: str, found: object) -> ExecutorFactory:
    """Return a factory, as ``checked_factory``; a function is also called once.

    Only its product shows whether it can run a task, and how. A node calls it for each busy
    ordering id anyway, so one more call is harmless; a class is inspected and not instantiated. An
    error of the function may be temporary, and fails each attempt until it stops.
    """
    factory = checked_factory(name, found)
    if not isinstance(made_by(factory), type):
        try:
            made: object = factory()
            complaint = attribute_complaint(made)
        except BaseException as error:
            if is_interrupt(error):
                raise
            text = "%s raised an error when it was tried; attempts try it again"
            log_raised(logger, text, name, level=logging.WARNING)
            return factory
        if not isinstance(made, TaskExecutor):
            kind = type(made).__name__
            raise InvalidExecutor(f"{name} returned a {kind}: expected a TaskExecutor")
        if complaint:
            raise InvalidExecutor(f"{name} returned a {type(made).__name__}: {complaint}")
        _refuse_execute(name, type(made))
        return TriedFactory(factory, type(made))
    return factory


def checked_factory(name: str, found: object) -> ExecutorFactory:
    """Return a factory; raises InvalidExecutor for an object that can never make executors."""
    made = made_by(found)
    if isinstance(made, type):
        if not issubclass(made, TaskExecutor):
            raise InvalidExecutor(
                f"{name} is a class but not a TaskExecutor: write"
                f" class {made.__name__}(TaskExecutor) and define execute(self, task)"
            )
        if unwritten := sorted(getattr(made, "__abstractmethods__", ())):
            raise InvalidExecutor(f"{name} does not define {', '.join(unwritten)}")
        if complaint := attribute_complaint(made):
            raise InvalidExecutor(f"{name}: {made.__name__}.{complaint}")
        _refuse_execute(name, made)
    if isinstance(found, TaskExecutor):
        raise InvalidExecutor(
            f"{name} is an instance of {type(found).__name__}: pass the class, without parentheses"
        )
    if not callable(found):
        raise InvalidExecutor(
            f"{name} is a {type(found).__name__}: expected a TaskExecutor class or a"
            " function without arguments that returns one"
        )
    if complaint := _call_complaint(found):
        raise InvalidExecutor(
            f"{name} cannot be called without arguments ({complaint}), as Hourhand does for each"
            " busy ordering id: give them defaults, or name a function that passes them"
        )
    factory: ExecutorFactory = found
    return factory


def made_by(found: object) -> object:
    """Return the class or function below bound arguments."""
    while isinstance(found, partial | TriedFactory):
        found = found.func
    return found


def class_of(found: object) -> type[TaskExecutor] | None:
    """Return the class of a factory's products; None if it is unknown."""
    made = found.made if isinstance(found, TriedFactory) else made_by(found)
    return made if isinstance(made, type) and issubclass(made, TaskExecutor) else None


def _refuse_execute(name: str, executor: type) -> None:
    """Raise InvalidExecutor if ``execute`` can never take a task."""
    execute = inspect.getattr_static(executor, "execute", None)
    where = f"{name}: {executor.__name__}.execute"
    bound = isinstance(execute, staticmethod | classmethod)
    if not (bound or inspect.isfunction(execute)):
        # Any other object decides its arguments itself.
        return
    called = getattr(executor, "execute", None)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise InvalidExecutor(f"{where} yields: it runs a task once, and returns its outcome")
    if complaint := _call_complaint(called, *([None] if bound else [None, None])):
        raise InvalidExecutor(f"{where} cannot take one task ({complaint}): define (self, task)")


def _call_complaint(called: object, *arguments: object) -> str | None:
    """Return the reason why an object cannot be called with these arguments; None if there is
    none.
    """
    try:
        # A wrapped function may take other arguments than its decorator.
        signature = inspect.signature(called, follow_wrapped=False)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*arguments)
    except TypeError as error:
        return str(error)
    return None
