"""Adapters are picked by the settings, drivers only when asked for, executors by their path."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.model.errors import InvalidExecutor
from actors.model.events import BulkEnqueued
from scheduler import wiring
from scheduler.adapters.embedded.writer import EmbeddedWriter
from scheduler.adapters.telemetry import LoggingTelemetry
from scheduler.settings import Settings

_MODULE = """
from scheduler import TaskExecutor

class Good(TaskExecutor):
    def execute(self, task):
        return None

class Unwritten(TaskExecutor):
    pass

class Stranger:
    pass

def make():
    return Good()

NUMBER = 7
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a working folder with a module of executors."""
    (tmp_path / "wired_executors.py").write_text(_MODULE)
    (tmp_path / "wired_broken.py").write_text("import no_such_package_at_all")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "wired_executors", raising=False)
    before = list(sys.path)
    yield tmp_path
    sys.path[:] = before


def test_a_class_or_a_factory_is_loaded_from_the_working_folder(folder: Path) -> None:
    """Both make an executor when called without arguments."""
    made = [wiring.load_executor(f"wired_executors:{name}")() for name in ("Good", "make")]

    assert [type(one).__name__ for one in made] == ["Good", "Good"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("wired_executors", "expected module:Class"),
        (":Good", "expected module:Class"),
        ("wired_executors:", "expected module:Class"),
        ("wired_nowhere:Good", "No module named 'wired_nowhere'"),
        ("wired_broken:Good", "No module named 'no_such_package_at_all'"),
        ("wired_executors:Missing", "has no 'Missing'"),
        ("wired_executors:Stranger", "no TaskExecutor"),
        ("wired_executors:Unwritten", "does not define execute"),
        ("wired_executors:NUMBER", "is a int"),
    ],
)
def test_a_bad_path_says_which_part_is_wrong(folder: Path, path: str, said: str) -> None:
    """One error class, and the text tells them apart."""
    with pytest.raises(InvalidExecutor) as caught:
        wiring.load_executor(path)

    assert path in str(caught.value)
    assert said in str(caught.value)


def test_the_default_settings_open_the_embedded_adapters(tmp_path: Path) -> None:
    """In the folder that the settings name."""
    settings = Settings.model_validate({"embedded": {"folder": tmp_path / "data"}})

    writer = wiring.open_writer(settings)
    try:
        assert isinstance(writer, EmbeddedWriter)
        assert writer.partition_count() == 16
    finally:
        writer.close()


def test_an_embedded_installation_has_nothing_to_migrate() -> None:
    """And says so for both of its parts."""
    assert [line.endswith("nothing to do") for line in wiring.migrate(Settings())] == [True, True]


def test_metrics_take_events_beside_the_log() -> None:
    """On any free port, until closed."""
    telemetry, server = wiring.serve_metrics(Settings(), 0)
    try:
        telemetry.emit(BulkEnqueued(3, 1.0))
        assert server.port > 0
    finally:
        server.close()
    assert isinstance(wiring.build_telemetry(Settings()), LoggingTelemetry)


def test_neither_the_package_nor_an_embedded_client_loads_a_driver(tmp_path: Path) -> None:
    """Whoever has no Kafka need not have its driver work."""
    program = (
        "import sys; from scheduler import Settings, SchedulerClient;"
        " SchedulerClient(Settings()).close();"
        " print([name for name in ('confluent_kafka', 'cassandra', 'typer', 'prometheus_client')"
        " if name in sys.modules])"
    )
    root = Path(__file__).parents[3]

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )

    assert done.stdout == "[]\n"
