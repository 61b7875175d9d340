"""Finds the names of a node's user code for processes: modules and their members.

Decides which objects can be found there, and refuses others before a node starts. Nothing is
pickled.
"""

import logging
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidExecutor
from hourhand.actors.model.values.settings import ExecutionSettings
from hourhand.scheduler.executors.executor_path import TriedFactory, found_at
from hourhand.scheduler.executors.middleware import Middleware
from hourhand.scheduler.executors.registry import Hourhand, TaskFunction
from hourhand.scheduler.executors.user_executors import Executors, UserExecutors, payloads_of
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.ports.user_places import ProcessPlan, UserPlaces

_ADVICE = "define it at the top level of a module, or give it run_in='thread'"


def plan_of(
    users: UserExecutors,
    executors: Executors | None,
    middleware: Sequence[Middleware],
    payloads: PayloadCodecs | None,
    settings: ExecutionSettings,
) -> ProcessPlan | None:
    """Return the plan for processes; None if nothing runs in one.

    Raises InvalidExecutor for code that they could not find.
    """
    if not users.in_processes:
        return None
    places = _places_of(users, executors, middleware, payloads)
    places.main_path, places.main_module = _main() if _needs_main(places) else (None, None)
    root = logging.getLogger()
    named = {
        name: each.level
        for name, each in tuple(root.manager.loggerDict.items())
        if isinstance(each, logging.Logger) and each.level
    }
    return ProcessPlan(
        places=places,
        search_paths=tuple(sys.path),
        arguments=tuple(sys.argv),
        log_level=root.level,
        log_levels=named,
        memory_bytes_max=settings.memory_bytes_per_process_max,
        niceness=settings.process_niceness,
    )


def _places_of(
    users: UserExecutors,
    executors: Executors | None,
    middleware: Sequence[Middleware],
    payloads: PayloadCodecs | None,
) -> UserPlaces:
    places = UserPlaces(middleware=[_place_of(each, "a middleware") for each in middleware])
    if isinstance(executors, Hourhand) and executors.loaded_from:
        places.paths = executors.loaded_from
    else:
        if None in users.in_processes:
            places.default = _place_of(users.default, "executor")
        registry = _bound(executors) if isinstance(executors, Hourhand) else None
        if registry is not None:
            places.registry = registry
        else:
            places.kinds = {
                kind: _place_of(users.kinds[kind].executor, f"the executor of kind {kind!r}")
                for kind in users.in_processes
                if kind is not None
            }
            if isinstance(executors, Hourhand):
                carried = [_place_of(each, "a middleware") for each in executors.middleware]
                places.middleware = [*carried, *places.middleware]
    used = payloads_of(executors, payloads)
    if used is not None and (payloads is not None or not (places.registry or places.paths)):
        places.payloads = _place_of(used, "payloads")
    return places


def executor_at(path: str) -> object:
    """Return the factory of executors at a path; InvalidExecutor."""
    found = found_at(path)
    return found.registered.executor if isinstance(found, TaskFunction) else found


def _place_of(found: object, what: str) -> str:
    """Return the path at which exactly this object is found; InvalidExecutor if there is none."""
    if isinstance(found, TriedFactory):
        found = found.func
    # A function's name leads to the object that its decorator made.
    named = getattr(found, "_call", found) if isinstance(found, type) else found
    module, name = getattr(named, "__module__", None), getattr(named, "__qualname__", None)
    if isinstance(module, str) and isinstance(name, str) and "<" not in name:
        path = f"{module}:{name}"
        try:
            if executor_at(path) is found:
                return path
        except InvalidExecutor:
            pass
    place = _bound(found)
    if place is None:
        raise InvalidExecutor(
            f"{what} is {shown(found)}, which a process cannot find, as no module has a name for"
            f" it: {_ADVICE}"
        )
    return place


def _bound(found: object) -> str | None:
    """Return the path of a module's name for an object; None if there is none."""
    for module, name, value in _names():
        if value is found:
            return f"{module}:{name}"
    return None


def _names() -> Iterator[tuple[str, str, object]]:
    """Yield the names of all modules, those of the program itself last: a process runs that one
    only if it has to.
    """
    modules = dict(sys.modules)
    # multiprocessing has a second name for the program's module.
    own = ("__main__", "__mp_main__")
    for module in (*(each for each in modules if each not in own), "__main__"):
        for name, value in tuple(getattr(modules.get(module), "__dict__", {}).items()):
            yield module, name, value


def _needs_main(places: UserPlaces) -> bool:
    named = (places.default, places.registry, places.payloads)
    all_of_them = (*named, *places.kinds.values(), *places.middleware)
    return any(each is not None and each.startswith("__main__:") for each in all_of_them)


def _main() -> tuple[str | None, str | None]:
    """Return the file of the program, or its module; InvalidExecutor if it has neither."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return None, str(spec.name)
    path = getattr(main, "__file__", None)
    if not isinstance(path, str) or not Path(path).is_file():
        raise InvalidExecutor(
            "user code that is typed in, or read from standard input, cannot run in processes,"
            " which would have to find it in a file: put it into one"
        )
    return str(Path(path).resolve()), None
