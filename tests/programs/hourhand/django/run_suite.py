"""``python -m … [FOLDER]``: the tests of the backend, and Django's of tasks, in FOLDER/tasks.

Prints a line for each of Django's tests that does not apply, and exits with 1 where another one
fails, or where one that is left out is not there.
"""

import sys
import unittest
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.test.runner import DiscoverRunner

from hourhand.django import framework
from tests.mirror import ROOT

OURS = {
    "django.tasks.backends.dummy.DummyBackend": (
        "tests.programs.hourhand.django.suite_backends.RecordedBackend"
    ),
    "django.tasks.backends.immediate.ImmediateBackend": (
        "tests.programs.hourhand.django.suite_backends.AtOnceBackend"
    ),
    "from django.tasks.backends.dummy import DummyBackend": (
        "from tests.programs.hourhand.django.suite_backends import RecordedBackend as DummyBackend"
    ),
    "from django.tasks.backends.immediate import ImmediateBackend": (
        "from tests.programs.hourhand.django.suite_backends import"
        " AtOnceBackend as ImmediateBackend"
    ),
}
_TELLS_OF_A_DEFECT = "it is of the dummy's own list, which the test changes in place"
_CAN = "Hourhand can do what the test expects to be refused"
LEFT_OUT = {
    "DummyBackendTestCase.test_refresh_result": _TELLS_OF_A_DEFECT,
    "DummyBackendTestCase.test_refresh_result_async": _TELLS_OF_A_DEFECT,
    "ImmediateBackendTestCase.test_cannot_get_result": _CAN,
    "ImmediateBackendTestCase.test_cannot_refresh_result": _CAN,
    "ImmediateBackendTestCase.test_cannot_pass_run_after": _CAN,
    "ImmediateBackendTestCase.test_throws_keyboard_interrupt": (
        "an attempt runs on a node, whose caller is not interrupted by it"
    ),
}


class _Runner(DiscoverRunner):
    left_out: set[str]

    def build_suite(self, *arguments: Any, **named: Any) -> unittest.TestSuite:
        """Return Django's tests without those that do not apply."""
        self.left_out = set()
        suite = super().build_suite(*arguments, **named)
        kept = [test for test in _flat(suite) if not self._is_left_out(test)]
        return unittest.TestSuite(kept)

    def _is_left_out(self, test: unittest.TestCase) -> bool:
        name = test.id().rpartition(f".{type(test).__name__}.")[2]
        full = f"{type(test).__name__}.{name}"
        if full in LEFT_OUT:
            self.left_out.add(full)
        return full in LEFT_OUT


def _flat(suite: Any) -> list[Any]:
    if isinstance(suite, unittest.TestCase):
        return [suite]
    return [test for each in suite for test in _flat(each)]


def _adapt(folder: Path) -> None:
    """Have Django's tests name the backends of this folder."""
    for file in (folder / "tasks").glob("*.py"):
        text = file.read_text(encoding="utf-8")
        for theirs, ours in OURS.items():
            text = text.replace(theirs, ours)
        file.write_text(text, encoding="utf-8")
    sys.path.insert(0, str(folder))


def _configure(applications: list[str], backends: dict[str, Any], *, use_tz: bool) -> None:
    settings.configure(
        INSTALLED_APPS=["hourhand.django", "hourhand.outbox.django", *applications],
        DATABASES={
            name: {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
            for name in ("default", "other")
        },
        TASKS=backends,
        SECRET_KEY="tests",
        USE_TZ=use_tz,
    )
    django.setup()


def run_theirs(folder: Path) -> int:
    """Run Django's tests, which are written for a project without time zones."""
    _adapt(folder)
    immediate = {"BACKEND": "django.tasks.backends.immediate.ImmediateBackend"}
    _configure(["tasks"], {"default": immediate}, use_tz=False)
    runner = _Runner(verbosity=0, top_level=str(folder))
    failures = runner.run_tests(["tasks"])
    for name in sorted(runner.left_out):
        print("left out:", name, "-", LEFT_OUT[name])  # noqa: T201 - a program
    gone = LEFT_OUT.keys() - runner.left_out
    if gone:
        print("not there:", *gone)  # noqa: T201 - a program
    return 1 if failures or gone else 0


def run_ours() -> int:
    """Run the tests of the backend."""
    ours = {"BACKEND": "hourhand.django.HourhandBackend", "QUEUES": ["default", "mail"]}
    backends = {
        "default": ours,
        "committed": {**ours, "ENQUEUE_ON_COMMIT": True},
        "elsewhere": {"BACKEND": f"{framework.NAME}.backends.immediate.ImmediateBackend"},
    }
    package = [] if framework.NAME == "django.tasks" else [framework.NAME]
    _configure(["tests.programs.hourhand.django.project", *package], backends, use_tz=True)
    runner = DiscoverRunner(verbosity=0, pattern="cases.py", top_level=str(ROOT))
    return 1 if runner.run_tests(["tests.programs.hourhand.django.project"]) else 0


if __name__ == "__main__":
    sys.exit(run_theirs(Path(sys.argv[1])) if len(sys.argv) > 1 else run_ours())
