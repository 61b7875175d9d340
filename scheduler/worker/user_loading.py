"""Loads user code in a process, from the names that its node has found.

Decides nothing of what can run a task: that is checked by the same code as in the node.
"""

import runpy
import sys
import types
from multiprocessing import spawn
from typing import cast

from hourhand.scheduler.executors.executor_path import ExecutorFactory, found_at
from hourhand.scheduler.executors.loading import load_executors
from hourhand.scheduler.executors.middleware import Middleware
from hourhand.scheduler.executors.process_plan import executor_at
from hourhand.scheduler.executors.registry import Hourhand
from hourhand.scheduler.executors.user_executors import UserExecutors
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.ports.user_places import ProcessPlan, UserPlaces
from hourhand.scheduler.runtime import loading

_MAIN_NAME = "__mp_main__"
"""The name under which multiprocessing runs the module of a program, so that the code
which starts the node is left out."""


def loaded(plan: ProcessPlan) -> UserExecutors:
    """Import user code, and return it as the node has it; raises whatever its modules do."""
    places = plan.places
    sys.path[:] = plan.search_paths
    sys.argv[:] = plan.arguments
    with loading.user_code():
        _load_main(places)
        executor: object = None
        executors: object = {}
        if places.paths:
            executor, executors = load_executors(places.paths)
        else:
            executor = None if places.default is None else executor_at(places.default)
            if places.registry is not None:
                executors = found_at(places.registry)
            else:
                executors = {kind: executor_at(path) for kind, path in places.kinds.items()}
        middleware = [found_at(each) for each in places.middleware]
        payloads = None if places.payloads is None else found_at(places.payloads)
        assert isinstance(executors, dict | Hourhand), "the node has found it so"
        return UserExecutors.of(
            cast("ExecutorFactory | None", executor),
            executors,
            cast("list[Middleware]", middleware),
            cast("PayloadCodecs | None", payloads),
        )


def _load_main(places: UserPlaces) -> None:
    """Run the module of the program, as multiprocessing does it."""
    if places.main_path is not None:
        spawn.prepare({"init_main_from_path": places.main_path})
    elif places.main_module is not None and places.main_module.endswith(".__main__"):
        # multiprocessing leaves the module of a package out, so nothing in it would be found.
        module = types.ModuleType(_MAIN_NAME)
        found = runpy.run_module(places.main_module, run_name=_MAIN_NAME, alter_sys=True)
        module.__dict__.update(found)
        sys.modules["__main__"] = sys.modules[_MAIN_NAME] = module
    elif places.main_module is not None:
        spawn.prepare({"init_main_from_name": places.main_module})
