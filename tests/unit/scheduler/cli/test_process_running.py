"""How many processes a command line asks for, and which are refused before any is started."""

from pathlib import Path

import pytest

from actors.model.errors import InvalidInput
from scheduler import Settings
from scheduler.cli.process_running import ChildPlace, process_count
from scheduler.configuration.cgroup import allowed_cores
from tests.unit.scheduler.cli.commands import invoke

SHARED = Settings(log="kafka", store="cassandra")


def test_auto_is_one_for_each_core() -> None:
    """And one alone where a folder is all that is there, which more could not share."""
    assert process_count("auto", SHARED) == allowed_cores()
    assert process_count("auto", Settings()) == 1


@pytest.mark.parametrize("text", ["0", "-1", "257", "two", "1.5", "", "9" * 400])
def test_no_number_of_processes_is_refused(text: str) -> None:
    """As wrong usage."""
    with pytest.raises(InvalidInput, match="expected 1 to 256, or auto"):
        process_count(text, SHARED)


def test_one_folder_is_refused_to_several_processes(tmp_path: Path) -> None:
    """With what to set; and nothing is begun."""
    result = invoke(tmp_path / "data", "run", "--executor", "os:getpid", "--processes", "2")

    assert result.exit_code == 3
    assert "only one node can hold the folder" in result.output
    assert "log=kafka" in result.output
    assert not (tmp_path / "data").exists()


def test_a_place_is_read_as_a_supervisor_writes_it() -> None:
    """Anybody else's is refused."""
    assert ChildPlace.of("2:7") == ChildPlace(2, 7)
    with pytest.raises(InvalidInput):
        ChildPlace.of("2")
