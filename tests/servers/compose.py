"""A project of docker/'s compose files: brought up, watched, and taken down with its volumes.

Each has a name and ports of its own, so it stands beside whatever else runs on this machine, and
``down`` removes nothing but what it made.
"""

import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from tests.servers.engine import EngineFailed, checked, docker, require_compose, require_engine
from tests.servers.images import DOCKER_FOLDER, chosen_images
from tests.servers.ports import free_ports

_PORTS = ("KAFKA_PORT", "CASSANDRA_PORT", "TIMERS_PORT", "ADMIN_PORT")
_TOKENS = ("ADMIN_TOKEN", "TIMERS_TOKEN")
_COMMAND_S = 300
_LOOK_S = 1.0


class ComposeProject:
    """One project; as a context manager it is removed on exit.

    Raises ToolMissing where there is no engine, or nothing that reads compose files.
    """

    def __init__(self, *files: str, variables: Mapping[str, str] | None = None) -> None:
        require_engine()
        self._compose = require_compose()
        self._files = [f"--file={DOCKER_FOLDER / name}" for name in files]
        self._name = f"hourhand-{uuid.uuid4().hex[:8]}"
        self.ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
        """Where services are published on this machine, by the files' variable."""
        self.tokens = {name: uuid.uuid4().hex for name in _TOKENS}
        self._variables = {
            **chosen_images(),
            **{name: str(port) for name, port in self.ports.items()},
            **self.tokens,
            **(variables or {}),
        }

    def up(self, services: Sequence[str], timeout_s: float) -> None:
        """Start services and what they need; returns when all of them are healthy.

        Raises EngineFailed, with the last lines of every container, where that takes longer.
        """
        deadline = time.monotonic() + timeout_s
        try:
            self._run("up", "--detach", "--no-build", *services, timeout_s=timeout_s)
        except EngineFailed as error:
            raise EngineFailed(f"{error}\n{self.logs()}") from None
        pause = threading.Event()
        while unready := [each for each in services if self._health(each) != "healthy"]:
            if time.monotonic() > deadline:
                raise EngineFailed(f"not healthy: {', '.join(unready)}\n{self.logs()}")
            pause.wait(_LOOK_S)

    def kill(self, service: str) -> None:
        """End a service's container at once, as a power cut would; returns when it is gone."""
        container = self._container(service)
        docker("kill", "--signal", "KILL", container)
        docker("wait", container)

    def stop(self, service: str) -> int:
        """Ask a service to stop, and return the exit code of its container."""
        container = self._container(service)
        docker("stop", "--time", "30", container)
        return int(docker("inspect", "--format", "{{.State.ExitCode}}", container))

    def execute(self, service: str, *command: str) -> str:
        """Run a command in a service's container and return what it printed."""
        return docker("exec", self._container(service), *command, timeout_s=_COMMAND_S)

    def logs(self, *services: str, lines: int = 15) -> str:
        """Return the last lines of services, or of all."""
        return self._run("logs", "--no-color", "--tail", str(lines), *services)

    def down(self) -> None:
        """Remove the project's containers, network and volumes."""
        self._run("down", "--volumes", "--timeout", "10")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    def _health(self, service: str) -> str:
        return docker("inspect", "--format", "{{.State.Health.Status}}", self._container(service))

    def _container(self, service: str) -> str:
        return self._run("ps", "--all", "--quiet", service)

    def _run(self, *arguments: str, timeout_s: float = _COMMAND_S) -> str:
        return checked(
            *self._compose,
            *self._files,
            "--project-name",
            self._name,
            *arguments,
            timeout_s=timeout_s,
            environment=self._variables,
        )
