"""From a command's paths to a node's executors: ``module:Name``, also as ``kind=module:Name``.

A path names a TaskExecutor class, a function without arguments that returns one, or a ``Hourhand``
registry. Other modules check that they can run a task.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.values.errors import InvalidExecutor
from hourhand.scheduler.executors.executor_path import checked_factory, found_at
from hourhand.scheduler.executors.registry import Hourhand, TaskFunction
from hourhand.scheduler.executors.user_executors import TaskKind


class LoadedExecutors(NamedTuple):
    """The executors at the paths of one command."""

    executor: Callable[[], TaskExecutor] | None
    """For tasks without a kind."""
    executors: Hourhand


def load_executors(paths: Sequence[str]) -> LoadedExecutors:
    """Import the objects at the paths; InvalidExecutor says which part of which path is wrong."""
    default: Callable[[], TaskExecutor] | None = None
    executors = Hourhand()
    executors.loaded_from = tuple(paths)
    for path in paths:
        kind, equals, named = path.partition("=")
        found = found_at(named if equals else path)
        if isinstance(found, TaskFunction):
            raise InvalidExecutor(
                f"{path!r} is one function of a registry: name the registry, as tasks:app"
            )
        if isinstance(found, Hourhand):
            if equals:
                raise InvalidExecutor(
                    f"{path!r}: {named} is a registry, which has kinds of its own: leave out"
                    f" {kind}="
                )
            executors.include(found)
        elif equals:
            executors.add(kind, TaskKind(checked_factory(repr(path), found)))
        elif default is None:
            default = checked_factory(repr(path), found)
        else:
            raise InvalidExecutor(
                f"{path!r} is a second executor for tasks without a kind: write kind={path}"
            )
    return LoadedExecutors(default, executors)
