"""The public surface: some thirty names, and importing them loads no driver."""

import subprocess
import sys
import types

import hourhand
import hourhand.scheduler.testing
import hourhand.testing
from tests.tidy.source import ROOT

NAMES_MAX = 30

DRIVERS = {"cassandra", "confluent_kafka", "prometheus_client", "pyspark", "rich", "typer"}


def _loaded_after(statement: str) -> set[str]:
    """Return the modules a fresh interpreter has loaded after a statement."""
    program = f"{statement}\nimport sys\nprint(*sys.modules)"
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


def test_the_public_names_are_few_and_real() -> None:
    """Every name listed can be imported, and no other name is left lying about."""
    names = list(hourhand.__all__)

    assert len(names) <= NAMES_MAX
    assert len(set(names)) == len(names)
    for name in names:
        assert getattr(hourhand, name) is not None
    visible = {
        name
        for name, value in vars(hourhand).items()
        if not name.startswith("_")
        and name != "TYPE_CHECKING"
        and not isinstance(value, types.ModuleType)
    }
    assert visible <= set(names)


def test_the_kit_has_the_same_names_for_users() -> None:
    """And the same objects."""
    for name in hourhand.testing.__all__:
        assert getattr(hourhand.testing, name) is getattr(hourhand.scheduler.testing, name)


def test_the_names_of_the_design_are_public() -> None:
    """What the first example of the README imports."""
    wanted = {"Scheduler", "SchedulerClient", "Settings", "Task", "TaskKey", "TaskExecutor"}

    assert wanted <= set(hourhand.__all__)


def test_importing_the_library_loads_no_driver() -> None:
    """A client of the embedded log never pays for Kafka or Cassandra."""
    assert not _loaded_after("import hourhand") & DRIVERS
    assert "hourhand.scheduler" not in _loaded_after("import hourhand")
    assert not _loaded_after("from hourhand import *") & DRIVERS


def test_importing_the_library_loads_no_settings_before_they_are_named() -> None:
    """Half of the time of an import, for who only defines an executor or a task."""
    assert "pydantic_settings" not in _loaded_after("from hourhand import TaskExecutor")
    assert "pydantic_settings" in _loaded_after("from hourhand import Settings")


def test_a_name_that_does_not_exist_is_refused_as_any_module_does() -> None:
    """What is loaded late is listed anyway."""
    assert not hasattr(hourhand, "Shceduler")
    assert set(hourhand.__all__) <= set(dir(hourhand))


def test_the_actors_can_be_imported_alone() -> None:
    """They know nothing of the scheduler."""
    loaded = _loaded_after("import hourhand.actors.topic_supervisor")

    assert "hourhand.actors.kernel" in loaded
    assert "hourhand.scheduler" not in loaded


def test_importing_the_package_builds_no_model() -> None:
    """A third of the time of an import; the first task and the first client build it."""
    built = "import hourhand; assert not hourhand.Task.__pydantic_complete__"

    assert not _loaded_after(built) & DRIVERS
