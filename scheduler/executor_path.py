"""From what a user names to what makes executors: a path such as ``invoices:SendInvoice``, a class.

Decides what can never run a task, and says so before anything is opened.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

from actors.model.errors import InvalidExecutor
from actors.model.executor_attributes import attribute_complaint
from actors.task_executor import TaskExecutor

ExecutorFactory = Callable[[], TaskExecutor]


def load_executor(path: str) -> ExecutorFactory:
    """Return what ``module:Name`` names: a TaskExecutor class or a zero-argument factory.

    The working folder is searched first, as with ``python -m``.  Raises InvalidExecutor and
    says which part of the path is wrong.
    """
    module_name, colon, attribute = path.partition(":")
    if not (colon and module_name and attribute):
        raise InvalidExecutor(
            f"{path!r} is no executor path: expected module:Class, such as invoices:SendInvoice"
        )
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: object = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise InvalidExecutor(
            f"{path!r}: cannot import {module_name!r}: {type(error).__name__}: {error}"
        ) from error
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise InvalidExecutor(f"{path!r}: {module_name!r} has no {attribute!r}") from None
    return checked_factory(repr(path), found)


def checked_factory(name: str, found: object) -> ExecutorFactory:
    """Return what makes executors; raises InvalidExecutor for what is seen never to do so."""
    if isinstance(found, type):
        if not issubclass(found, TaskExecutor):
            raise InvalidExecutor(
                f"{name} is a class but no TaskExecutor: write"
                f" class {found.__name__}(TaskExecutor) and define execute(self, task)"
            )
        if unwritten := sorted(getattr(found, "__abstractmethods__", ())):
            raise InvalidExecutor(f"{name} does not define {', '.join(unwritten)}")
        if complaint := attribute_complaint(found):
            raise InvalidExecutor(f"{name}: {found.__name__}.{complaint}")
        return found
    if not callable(found):
        raise InvalidExecutor(
            f"{name} is a {type(found).__name__}: expected a TaskExecutor class or a"
            " function without arguments that returns one"
        )
    return found
