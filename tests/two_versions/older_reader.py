"""What an older version reads from bytes of today's; it runs nothing and opens nothing.

Started as ``python older_reader.py`` with that version on ``PYTHONPATH``: JSON in, JSON out, one
answer for each question.  Uses only names of that version, which imports by its folders' names.
"""

import importlib
import json
import sys
from typing import Any

_MODULES = {
    "codec": "actors.model.codec",
    "config": "actors.model.operator_config",
    "definition": "actors.model.definition",
    "errors": "actors.model.errors",
    "key": "actors.model.key",
    "oversight": "actors.model.oversight",
    "schema": "scheduler.adapters.embedded.schema",
    "state": "scheduler.services.recurring.state",
    "status": "actors.model.status",
    "system": "scheduler.services.system_tasks",
    "task": "actors.model.task",
    "users": "scheduler.executors.user_executors",
}
_KINDS = ("mail", "charge")


class _Reader:
    def __init__(self) -> None:
        self._of: dict[str, Any] = {k: importlib.import_module(m) for k, m in _MODULES.items()}
        base = importlib.import_module("scheduler").TaskExecutor

        class Quiet(base):  # type: ignore[misc, valid-type]
            def execute(self, task: Any) -> None: ...

        users = self._of["users"].UserExecutors.of(Quiet, dict.fromkeys(_KINDS, Quiet))
        system = {each.value: Quiet for each in self._of["definition"].DefinitionKind}
        self._executor_of = self._of["system"].routed(users.make, system)

    def ask(self, what: str, body: str) -> dict[str, Any]:
        """Return what it makes of a text; an error by the name of its class."""
        try:
            return {"what": what, **getattr(self, what)(body)}
        except Exception as error:  # noqa: BLE001 - the answer is which one
            return {"what": what, "error": type(error).__name__, "says": str(error)[:200]}

    def record(self, body: str) -> dict[str, Any]:
        record = self._of["codec"].LogRecord(0, 7, 0, None, body.encode())
        read = self._of["codec"].decode_record(record)
        if not isinstance(read, self._of["task"].StoredTask):
            return {"command": read.kind.value}
        return self._task(read)

    def row(self, body: str) -> dict[str, Any]:
        key = self._of["key"].TaskKey(0, "customer-7", "invoice-42")
        task = self._of["task"].StoredTask(key, body.encode(), 7)
        letter = self._of["codec"].letter_of(task, 0, 0)
        return {**self._task(task), "letter": letter.value.decode()}

    def _task(self, task: Any) -> dict[str, Any]:
        """Return the data that an executor would get, or nothing where no executor has it."""
        try:
            self._executor_of(task.key.ordering_id, task.kind)
        except self._of["errors"].UnknownKind:
            return {"held": True}
        return {"held": False, "kind": task.kind, "data": json.loads(task.data)}

    def state(self, body: str) -> dict[str, Any]:
        msgspec: Any = importlib.import_module("msgspec")
        name = self._of["state"].name_of("report")
        row = self._of["definition"].Definition(name, 0, body.encode())
        state = self._of["state"].recurring_of(row).state
        return {"written": msgspec.json.encode(state).decode()}

    def completion(self, body: str) -> dict[str, Any]:
        return {"result": self._of["status"].CompletionResult(body).value}

    def attempt(self, body: str) -> dict[str, Any]:
        return {"result": self._of["status"].AttemptResult(body).value}

    def config(self, body: str) -> dict[str, Any]:
        read = self._of["config"].decode_config(body.encode())
        return {"written": self._of["config"].encode_config(read).decode()}

    def report(self, body: str) -> dict[str, Any]:
        (read,) = self._of["oversight"].decode_reports([("a", 1, 0, body.encode())])
        return {"written": self._of["oversight"].encode_report(read).decode()}

    def folder(self, body: str) -> dict[str, Any]:
        del body
        return {"opens": self._of["schema"].STORE.version_max}


if __name__ == "__main__":
    reader = _Reader()
    print(json.dumps([reader.ask(*each) for each in json.load(sys.stdin)]))  # noqa: T201
