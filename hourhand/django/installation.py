"""One backend of a project's ``TASKS`` in a process: its settings, client, outbox and tasks.

Decides when a client is opened, and which: that of a node or a test kit in this process, else one
of its own, after a fork a new one.  Never what is enqueued.
"""

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, cast
from urllib.parse import quote, urlencode

from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import NotConnected
from hourhand.actors.model.values.instant import from_millis
from hourhand.django.declaring import declared_tasks
from hourhand.django.running import kind_for
from hourhand.outbox import Outbox
from hourhand.scheduler import wiring
from hourhand.scheduler.client.client import SchedulerClient
from hourhand.scheduler.configuration.overrides import nested_values
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.executors.registry import Hourhand

OPTIONS = ("database", "modules", "retry", "settings")
_REMEMBERED_MAX = 1_000
_OF_DJANGO_ALONE = {"assume_role", "isolation_level", "pool", "server_side_binding"}
"""Options of a PostgreSQL database that its driver does not know."""


class DjangoInstallation:
    """The parts of a backend that the threads of a process share; used from any of them."""

    def __init__(self, alias: str, params: Mapping[str, Any], backend: Any) -> None:
        """Raises ImproperlyConfigured for an unknown option; opens nothing."""
        options: Mapping[str, Any] = params.get("OPTIONS", {})
        unknown = sorted(set(options) - set(OPTIONS))
        if unknown:
            raise ImproperlyConfigured(
                f"TASKS[{alias!r}]['OPTIONS'] has {', '.join(unknown)}: known are"
                f" {', '.join(OPTIONS)}"
            )
        retry: object = options.get("retry", RetryPolicy(attempts_max=1))
        if not isinstance(retry, RetryPolicy):
            raise ImproperlyConfigured(
                f"TASKS[{alias!r}]['OPTIONS']['retry'] is {shown(retry)}: give a"
                " hourhand.RetryPolicy"
            )
        self.params = params
        self.database = str(options.get("database", "default"))
        self.on_commit = bool(params.get("ENQUEUE_ON_COMMIT", False))
        self._modules = tuple(options.get("modules", ()))
        self._values: Mapping[str, Any] = options.get("settings", {})
        self._retry = retry
        self._backend = backend
        self._registry = Hourhand()
        self._declared: dict[str, Any] = {}
        self._opened: tuple[int, SchedulerClient] | None = None
        self._outbox: Outbox | None = None
        self._lock = threading.Lock()
        self._remembered: OrderedDict[str, tuple[SchedulerClient | None, Any]] = OrderedDict()

    def settings(self, overrides: Iterable[str] = ()) -> Settings:
        """Return the settings: overrides as of ``--set``, the option, environment and file.

        Raises SettingsInvalid.
        """
        pairs = [each.partition("=")[::2] for each in overrides]
        values = _merged(self._values, nested_values(pairs, "--set"))
        made = Settings(**values)
        if self.on_commit and made.outbox.url is None:
            url = {"outbox": {"url": _url_of(connections[self.database].settings_dict)}}
            made = Settings(**_merged(values, url))
        return made

    @property
    def now(self) -> datetime:
        """The wall time of the client, or of this machine before there is one."""
        client = self._client()
        return _machine_time() if client is None else client.now

    @property
    def enqueue_now(self) -> datetime:
        """The wall time of whatever takes a task: the client, or the outbox."""
        return _machine_time() if self.on_commit else self.now

    @property
    def is_connected(self) -> bool:
        """True if ``client`` returns one at once."""
        return self._client() is not None

    def client(self) -> SchedulerClient:
        """Return the client to schedule and read through; the first call opens one."""
        with self._lock:
            found = self._client()
            if found is not None:
                return found
            if self._opened is not None:
                self._registry.unbind(self._opened[1])
            client = SchedulerClient(self.settings(), executors=self._registry)
            self._opened = os.getpid(), client
            atexit.register(client.close)
            return client

    def _client(self) -> SchedulerClient | None:
        try:
            client = cast("SchedulerClient", self._registry.client)
        except NotConnected:
            return None
        if self._opened is not None and client is self._opened[1]:
            return client if self._opened[0] == os.getpid() else None
        return client

    def outbox(self) -> Outbox:
        """Return the outbox of the database."""
        with self._lock:
            if self._outbox is None:
                self._outbox = Outbox(self.settings())
            return self._outbox

    def executors(self) -> Hourhand:
        """Return the registry with every task of the project."""
        with self._lock:
            for kind, declared in declared_tasks(self._modules).items():
                if kind not in self._declared:
                    self._declared[kind] = declared
                    self._registry.add(kind, kind_for(declared, self._backend, self._retry))
            return self._registry

    def declared(self, kind: str) -> Any:
        """Return the task of a kind, whose module is loaded where it must be; None without one."""
        if kind not in self._declared:
            self.executors()
        return self._declared.get(kind)

    def remember(self, result: Any, client: SchedulerClient | None = None) -> None:
        """Keep a result that was enqueued here until nodes know it; the newest thousand are kept.

        Nothing is kept for another installation: ``client`` is the one it went through, if any.
        """
        with self._lock:
            self._remembered[result.id] = client, result
            if len(self._remembered) > _REMEMBERED_MAX:
                self._remembered.popitem(last=False)

    def remembered(self, task_id: str) -> Any:
        """Return a result that was enqueued here; None if it is not kept."""
        client, result = self._remembered.get(task_id, (None, None))
        return result if client in {None, self._client()} else None


def _machine_time() -> datetime:
    return from_millis(wiring.open_clock().now_ms())


def _merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(values)
    for name, each in changes.items():
        before = merged.get(name)
        inner = isinstance(each, Mapping) and isinstance(before, Mapping)
        merged[name] = _merged(before, each) if inner else each  # type: ignore[arg-type]
    return merged


def _url_of(database: Mapping[str, Any]) -> str:
    """Return the address of a database of Django's settings, for the mover."""
    name = str(database["NAME"])
    if "sqlite" in database["ENGINE"]:
        return f"sqlite:///{quote(name)}"
    user, password = (str(database.get(each) or "") for each in ("USER", "PASSWORD"))
    host, port = (str(database.get(each) or "") for each in ("HOST", "PORT"))
    login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    more = {
        key: str(value)
        for key, value in (database.get("OPTIONS") or {}).items()
        if key not in _OF_DJANGO_ALONE and isinstance(value, str | int)
    }
    if host.startswith("/"):
        more["host"], host = host, ""
    place = f"[{host}]" if ":" in host else host
    at = f"{login}@" if login else ""
    query = f"?{urlencode(more, quote_via=quote)}" if more else ""
    return f"postgresql://{at}{place}{f':{port}' if port else ''}/{quote(name, safe='')}{query}"
