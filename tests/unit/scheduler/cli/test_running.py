"""A node with a door: opened together or not at all, and stopped in order."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hourhand import Receipt, Settings, Task
from hourhand.actors.model.values.errors import FolderLocked
from hourhand.scheduler.cli.running import DoorRunning
from hourhand.scheduler.configuration.settings import EmbeddedSettings

TIMEOUT_S = 60


class Door(DoorRunning):
    """A door that has something to say to the log when it stops."""

    def __init__(self, settings: Settings, open_door: Callable[[], None] = lambda: None) -> None:
        self.accepted: list[Receipt] = []
        super().__init__(settings, None, {}, None)
        self._opened(open_door)

    def start(self) -> None:
        """Run the node."""
        self.scheduler.start()

    def _stop_door(self) -> None:
        task = Task(ordering_id="o", scheduled_time=datetime.now(UTC), uniqueness_key="last")
        self.accepted.append(self.scheduler.schedule_task(task).result(TIMEOUT_S))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A folder."""
    return Settings(embedded=EmbeddedSettings(folder=tmp_path / "data"))


@pytest.mark.parametrize("how", ["stop", "signal"])
def test_a_door_stops_while_its_node_still_works(settings: Settings, how: str) -> None:
    """Whoever asks for the stop; what it accepts meanwhile is durable."""
    door = Door(settings)
    door.start()
    if how == "stop":
        door.stop()
    else:
        door.scheduler.stop()
        door.wait()

    assert [receipt.key.uniqueness_key for receipt in door.accepted] == ["last"]


def test_a_door_that_does_not_open_leaves_nothing_open(settings: Settings) -> None:
    """The folder may be opened again at once."""

    def fail() -> None:
        raise LookupError("the port is taken")

    with pytest.raises(LookupError):
        Door(settings, fail)
    with Door(settings) as door:
        with pytest.raises(FolderLocked):
            Door(settings)
        assert door.accepted == []
