"""How many processes a command line asks for, and which are refused before any is started."""

from pathlib import Path

import pytest

from hourhand import Settings
from hourhand.actors.model.values.errors import InvalidInput
from hourhand.actors.model.values.settings import ExecutionSettings, TreeSettings
from hourhand.scheduler.cli.process_running import ChildPlace, process_count, settings_of_child
from hourhand.scheduler.configuration.cgroup import allowed_cores
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


@pytest.mark.parametrize(
    ("cores", "count", "shares"),
    [(8, 2, [4, 4]), (7, 3, [3, 2, 2]), (2, 4, [1, 1, 1, 1]), (1, 1, [1])],
)
def test_nodes_of_one_command_share_the_cores(cores: int, count: int, shares: list[int]) -> None:
    """Together their processes for user code are as many as the cores; each node has one."""
    options = [settings_of_child(SHARED, number, count, cores) for number in range(1, count + 1)]

    chosen = [f"tree.execution.processes={share}" for share in shares]
    assert [set(each) & set(chosen) for each in options] == [{each} for each in chosen]


def test_a_number_of_processes_that_is_set_is_that_of_each_node() -> None:
    """The command does not divide what somebody chose."""
    settings = SHARED.model_copy(
        update={"tree": TreeSettings(execution=ExecutionSettings(processes=3))}
    )

    assert not any("processes" in each for each in settings_of_child(settings, 1, 2, cores=8))


def test_a_place_is_read_as_a_supervisor_writes_it() -> None:
    """Anybody else's is refused."""
    assert ChildPlace.of("2:7") == ChildPlace(2, 7)
    with pytest.raises(InvalidInput):
        ChildPlace.of("2")
