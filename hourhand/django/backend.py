"""The backend for Django's tasks: enqueues into Hourhand, and reads results from its store.

Decides ids, times and statuses of what is enqueued, and whether a task is part of the caller's
transaction.  Never opens a client before one is needed.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.apps import apps
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.utils.crypto import get_random_string

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import CallerError, HourhandError, InvalidKey
from hourhand.actors.model.values.public import public
from hourhand.django import framework
from hourhand.django.calls import GENERATED, StoredCall, aware_time, django_time, enqueued_call
from hourhand.django.declaring import HourhandTask, kind_of
from hourhand.django.installation import DjangoInstallation
from hourhand.scheduler.executors.registry import Hourhand
from hourhand.scheduler.outbox.table import dialect_of
from hourhand.scheduler.tasks.task_info import Absence, TaskInfo

_installations: dict[str, DjangoInstallation] = {}
_lock = threading.Lock()


@public("hourhand.django")
class HourhandBackend(framework.backends.BaseTaskBackend):
    """Django's tasks on Hourhand: ``TASKS = {"default": {"BACKEND": …}}`` names this class.

    ``ENQUEUE_ON_COMMIT = True`` beside it writes tasks into the outbox, as part of the caller's
    transaction.  ``OPTIONS`` may have ``settings`` (those of Hourhand), ``database`` (of the
    outbox), ``retry`` and ``modules`` (with tasks, besides ``tasks`` of each application).
    """

    task_class = HourhandTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        with _lock:
            known = _installations.get(alias)
            # Django makes a backend for each thread.
            if known is None or known.params != params:
                known = _installations[alias] = DjangoInstallation(alias, params, self)
        self.installation = known

    @property
    def now(self) -> datetime:
        """The wall time of the installation, in UTC."""
        return self.installation.now

    def enqueue(self, task: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
        """Schedule a task durably, or within the transaction, and return its result so far.

        Raises InvalidTask of Django for a task that Hourhand refuses, and OperatorError where the
        log does not take it.
        """
        result, made = self._made(task, args, kwargs)
        with _django_errors():
            if self.installation.on_commit:
                self._write(result, made)
            else:
                client = self.installation.client()
                client.schedule_task(made).result()
                self.installation.remember(result, client)
        return self._told(result)

    async def aenqueue(self, task: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
        """Do what ``enqueue`` does, in a coroutine."""
        result, made = self._made(task, args, kwargs)
        with _django_errors():
            if self.installation.on_commit:
                await sync_to_async(self._write)(result, made)
            else:
                if not self.installation.is_connected:
                    await sync_to_async(self.installation.client, thread_sensitive=False)()
                client = self.installation.client()
                await client.schedule_task(made)
                self.installation.remember(result, client)
        return self._told(result)

    def get_result(self, result_id: str) -> Any:
        """Return the result of a task, by its id, as its nodes have stored it.

        Raises TaskResultDoesNotExist where too little of it is stored: no node has seen it yet, or
        it ended longer ago than results are kept.
        """
        key = _key_of(result_id)
        info = self.installation.client().find_task(key)
        while info.moved_to is not None:
            info = self.installation.client().find_task(info.moved_to)
        return self._result(result_id, info)

    async def aget_result(self, result_id: str) -> Any:
        """Do what ``get_result`` does, in a coroutine."""
        key = _key_of(result_id)
        if not self.installation.is_connected:
            await sync_to_async(self.installation.client, thread_sensitive=False)()
        reads = self.installation.client().aio
        info = await reads.find_task(key)
        while info.moved_to is not None:
            info = await reads.find_task(info.moved_to)
        return await sync_to_async(self._result)(result_id, info)

    def check(self, **_more: Any) -> list[Any]:
        """Return what is wrong with the settings, for ``manage.py check``."""
        complaints = list(super().check(**_more))
        try:
            self.installation.settings()
            if self.installation.on_commit:
                dialect_of(connections[self.installation.database].vendor)
        except (HourhandError, ImproperlyConfigured) as error:
            complaints.append(checks.Error(f"TASKS[{self.alias!r}]: {error}", id="hourhand.E001"))
        if self.installation.on_commit and not apps.is_installed("hourhand.outbox.django"):
            complaints.append(
                checks.Error(
                    f"TASKS[{self.alias!r}] has ENQUEUE_ON_COMMIT, and the outbox has no table",
                    hint="Add hourhand.outbox.django to INSTALLED_APPS, and migrate.",
                    id="hourhand.E002",
                )
            )
        return complaints

    def _made(self, task: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Task]:
        """Return a result for what is enqueued, and the task of Hourhand."""
        self.validate_task(task)
        now = self.installation.enqueue_now
        run_after = None if task.run_after is None else aware_time(task.run_after)
        generated = GENERATED + get_random_string(24)
        chosen = getattr(task, "ordering_id", None)
        # Two tasks of one ordering id and time are two only by this key.
        unnamed = "" if chosen is None else generated
        uniqueness_key = getattr(task, "uniqueness_key", None)
        result = framework.base.TaskResult(
            task=task,
            id="",
            status=framework.base.TaskResultStatus.READY,
            enqueued_at=django_time(now),
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        with _django_errors():
            made = Task(
                ordering_id=generated if chosen is None else chosen,
                scheduled_time=now if run_after is None else max(now, run_after),
                uniqueness_key=unnamed if uniqueness_key is None else uniqueness_key,
                data=enqueued_call(result, run_after).as_data(),
                kind=kind_of(task.func),
                priority=task.priority or None,
            )
        return replace(result, id=str(made.key)), made

    def _write(self, result: Any, made: Task) -> None:
        """Write a task into the outbox."""
        database = self.installation.database
        self.installation.outbox().schedule(connections[database], made)
        # A task that is rolled back is not remembered.
        transaction.on_commit(partial(self.installation.remember, result), using=database)

    def _told(self, result: Any) -> Any:
        framework.signals.task_enqueued.send_robust(type(self), task_result=result)
        return replace(result, errors=[], worker_ids=[])

    def _result(self, result_id: str, info: TaskInfo) -> Any:
        stored = StoredCall.of(info)
        declared = None if stored is None else self.installation.declared(stored.kind)
        if stored is not None and declared is not None:
            return stored.result(result_id, declared, self)
        here = self.installation.remembered(result_id)
        if here is not None and info.absence in {Absence.UNSEEN, Absence.NOT_STORED_YET}:
            return replace(here, errors=[], worker_ids=[])
        raise framework.exceptions.TaskResultDoesNotExist(result_id)


@public("hourhand.django")
def executors(backend: str = "default") -> Hourhand:
    """Return the registry of a project's tasks, for a node or ``VirtualScheduler``.

    While one of these is open with it, the backend of that alias schedules through it.
    """
    found = framework.tasks.task_backends[backend]
    if not isinstance(found, HourhandBackend):
        raise ImproperlyConfigured(
            f"TASKS[{backend!r}] is a {type(found).__name__}: name the alias of a HourhandBackend"
        )
    return found.installation.executors()


def _key_of(result_id: object) -> TaskKey:
    try:
        return TaskKey.parse(str(result_id))
    except InvalidKey:
        raise framework.exceptions.TaskResultDoesNotExist(result_id) from None


@contextmanager
def _django_errors() -> Iterator[None]:
    """Raise Django's InvalidTask for what a caller did wrong."""
    try:
        yield
    except CallerError as error:
        raise framework.InvalidTask(str(error)) from error
