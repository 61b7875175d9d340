"""Tasks as a Django project declares them: their ids, their options for a node, and their kinds.

Decides the kind of a function and which functions are tasks.  Never imports a module that a record
names.
"""

import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib import import_module
from typing import Any, TypeVar

from django.utils.module_loading import autodiscover_modules

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.flow.flow import FairShare, Limit
from hourhand.actors.model.task.kind import is_kind
from hourhand.actors.model.values.public import public
from hourhand.django import framework

Function = TypeVar("Function", bound=Callable[..., Any])

_ATTRIBUTE = "hourhand_options"
_NOT_OF_A_KIND = re.compile(r"[^A-Za-z0-9_.:/-]")
_DIGEST_CHARS = 16
_END_CHARS = 46
"""Characters of a long path that its kind shows; with the digest it is as long as a kind may be."""


@public("hourhand.django")
@dataclass(frozen=True, slots=True, kw_only=True)
class HourhandTask(framework.base.Task):
    """A task of Django whose ids may be chosen: ``remind.using(ordering_id="customer-7")``.

    Tasks of one ordering id run one at a time; without one a task waits for no other.  A task
    that is enqueued replaces one of the same ids and time.
    """

    ordering_id: str | None = None
    uniqueness_key: str | None = None

    def using(
        self, *, ordering_id: str | None = None, uniqueness_key: str | None = None, **changes: Any
    ) -> Any:
        """Return a task with these ids, and with what Django's ``using`` changes."""
        ids = {"ordering_id": ordering_id, "uniqueness_key": uniqueness_key}
        # A class with slots is made twice, and super() without arguments means the first one.
        changed = framework.base.Task.using(self, **changes)
        return replace(changed, **{name: each for name, each in ids.items() if each is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionOptions:
    """The options of one function for the nodes that run it."""

    retry: RetryPolicy | None = None
    timeout: timedelta | None = None
    stuck_after: timedelta | None = None
    concurrency: int | None = None
    limits: Limit | Sequence[Limit] = ()
    fair: FairShare | None = None
    expires_after: timedelta | None = None


@public("hourhand.django")
def task_options(
    *,
    retry: RetryPolicy | None = None,
    timeout: timedelta | None = None,
    stuck_after: timedelta | None = None,
    concurrency: int | None = None,
    limits: Limit | Sequence[Limit] = (),
    fair: FairShare | None = None,
    expires_after: timedelta | None = None,
) -> Callable[[Function], Function]:
    """Give a task's function the options that ``@app.task`` of ``Hourhand`` takes.

    Stands below or above Django's ``@task``.  Without ``retry`` the function has that of the
    backend.
    """
    options = FunctionOptions(
        retry=retry,
        timeout=timeout,
        stuck_after=stuck_after,
        concurrency=concurrency,
        limits=limits,
        fair=fair,
        expires_after=expires_after,
    )

    def give(function: Function) -> Function:
        setattr(getattr(function, "func", function), _ATTRIBUTE, options)
        return function

    return give


def options_of(function: Callable[..., Any]) -> FunctionOptions:
    """Return the options that a task's function was given."""
    found: object = getattr(function, _ATTRIBUTE, None)
    return found if isinstance(found, FunctionOptions) else FunctionOptions()


def kind_of(function: Callable[..., Any]) -> str:
    """Return the kind of a task's function: its path, or its end and a digest where it is long."""
    path = f"{function.__module__}.{function.__qualname__}"
    if is_kind(path):
        return path
    end = _NOT_OF_A_KIND.sub("_", path)[-_END_CHARS:]
    return f"{end}-{hashlib.sha256(path.encode()).hexdigest()[:_DIGEST_CHARS]}"


def declared_tasks(modules: Iterable[str]) -> dict[str, Any]:
    """Return every task of a loaded module by its kind.

    Modules ``tasks`` of the installed applications, and those named, are loaded first.
    """
    autodiscover_modules("tasks")
    for name in modules:
        import_module(name)
    found: dict[str, Any] = {}
    for module in list(sys.modules.values()):
        for value in list(getattr(module, "__dict__", {}).values()):
            # A lazy object of Django's looks up what it stands for when its class is asked.
            if issubclass(type(value), framework.base.Task):
                found.setdefault(kind_of(value.func), value)
    return found
