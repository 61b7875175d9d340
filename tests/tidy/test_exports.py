"""The public surface: some thirty names, and importing them loads no driver."""

import importlib
import subprocess
import sys
import types

import pytest

import hourhand
import hourhand.testing
import scheduler
import scheduler.testing
from tests.tidy.source import ROOT

NAMES_MAX = 30

DRIVERS = {"cassandra", "confluent_kafka", "prometheus_client", "pyspark", "rich", "typer"}


def _loaded_after(statement: str) -> set[str]:
    """Return the top-level packages a fresh interpreter has loaded after a statement."""
    program = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=False,
        cwd=ROOT,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


@pytest.mark.parametrize("package", ["hourhand", "scheduler"])
def test_the_public_names_are_few_and_real(package: str) -> None:
    """Every name listed can be imported, and no other name is left lying about."""
    module = importlib.import_module(package)
    names = list(module.__all__)

    assert len(names) <= NAMES_MAX
    assert len(set(names)) == len(names)
    for name in names:
        assert getattr(module, name) is not None
    visible = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and name != "TYPE_CHECKING"
        and not isinstance(value, types.ModuleType)
    }
    assert visible <= set(names)


def test_hourhand_has_the_names_of_the_scheduler_and_no_others() -> None:
    """The same objects, so that programs may mix the two."""
    assert hourhand.__all__ == scheduler.__all__
    for name in hourhand.__all__:
        assert getattr(hourhand, name) is getattr(scheduler, name)
    for name in hourhand.testing.__all__:
        assert getattr(hourhand.testing, name) is getattr(scheduler.testing, name)


def test_the_names_of_the_design_are_public() -> None:
    """What the first example of the README imports."""
    wanted = {"Scheduler", "SchedulerClient", "Settings", "Task", "TaskKey", "TaskExecutor"}

    assert wanted <= set(scheduler.__all__)


def test_importing_the_library_loads_no_driver() -> None:
    """A client of the embedded log never pays for Kafka or Cassandra."""
    assert not _loaded_after("import hourhand") & DRIVERS
    assert "scheduler" not in _loaded_after("import hourhand")
    assert not _loaded_after("import scheduler") & DRIVERS
    assert not _loaded_after("from scheduler import *") & DRIVERS


def test_importing_the_library_loads_no_settings_before_they_are_named() -> None:
    """Half of the time of an import, for who only defines an executor or a task."""
    assert "pydantic_settings" not in _loaded_after("import scheduler")
    assert "pydantic_settings" in _loaded_after("from scheduler import Settings")


def test_a_name_that_does_not_exist_is_refused_as_any_module_does() -> None:
    """What is loaded late is listed all the same."""
    assert not hasattr(hourhand, "Shceduler")
    assert set(hourhand.__all__) <= set(dir(hourhand))
    assert not hasattr(scheduler, "Shceduler")
    assert set(scheduler.__all__) <= set(dir(scheduler))


def test_the_two_packages_can_be_imported_in_either_order() -> None:
    """No import works only because another one came before."""
    both = {"actors", "scheduler"}

    assert both <= _loaded_after("import scheduler; scheduler.Task")
    assert "scheduler" not in _loaded_after("import actors.topic_supervisor")
    assert both <= _loaded_after("import actors.topic_supervisor, scheduler")


def test_importing_the_package_builds_no_model() -> None:
    """A third of the time of an import; the first task and the first client build it."""
    built = "import scheduler; assert not scheduler.Task.__pydantic_complete__"

    assert not _loaded_after(built) & DRIVERS
