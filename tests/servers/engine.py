"""The container engine of this machine, asked through its own command line.

It decides whether there is one.  It never starts an engine, and never removes an image or a
container that it was not told of by name.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from tests.servers.maven import ToolMissing

_ANSWER_TIMEOUT_S = 30
_COMPOSE_COMMANDS = (("docker", "compose"), ("docker-compose",))


class EngineFailed(RuntimeError):
    """The engine refused a command; the message holds the end of what it said."""


def require_engine() -> None:
    """Raise ToolMissing, with one line to act on, where no container engine answers."""
    if shutil.which("docker") is None:
        raise ToolMissing(
            "no container engine: docker is not on the PATH; install one (Debian: apt-get"
            " install docker.io)"
        )
    answer = _run("docker", "ps", "--quiet", timeout_s=_ANSWER_TIMEOUT_S)
    if answer.returncode:
        raise ToolMissing(
            "no container engine answers; start it (Debian: service docker start, or dockerd as"
            f" root): {_last_line(answer)}"
        )


def require_compose() -> tuple[str, ...]:
    """Return the command that reads compose files; raises ToolMissing where there is none."""
    for command in _COMPOSE_COMMANDS:
        if shutil.which(command[0]) is None:
            continue
        if _run(*command, "version", timeout_s=_ANSWER_TIMEOUT_S).returncode == 0:
            return command
    raise ToolMissing(
        "compose files cannot be used: neither `docker compose` nor docker-compose is there;"
        " install one (Debian: apt-get install docker-compose)"
    )


def docker(*arguments: str, timeout_s: float = 600) -> str:
    """Run one command of the engine and return what it printed; raises EngineFailed."""
    return checked("docker", *arguments, timeout_s=timeout_s)


def checked(*command: str, timeout_s: float, environment: Mapping[str, str] | None = None) -> str:
    """Run any command to its end and return what it printed; raises EngineFailed."""
    done = _run(*command, timeout_s=timeout_s, environment=environment)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-30:])
        raise EngineFailed(f"`{' '.join(command)}` failed:\n{tail}")
    return done.stdout.strip()


def has_image(name: str) -> bool:
    """True if the engine has an image, without asking any registry."""
    return _run("docker", "image", "inspect", name, timeout_s=60).returncode == 0


def can_pull(name: str) -> bool:
    """Fetch an image from its registry; return whether that worked."""
    return _run("docker", "pull", "--quiet", name, timeout_s=900).returncode == 0


def size_bytes(name: str) -> int:
    """Return how large an image is."""
    return int(docker("image", "inspect", "--format", "{{.Size}}", name))


def _run(
    *command: str, timeout_s: float, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            command,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no end within {timeout_s:.0f} s")


def _last_line(done: "subprocess.CompletedProcess[str]") -> str:
    lines: Sequence[str] = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"
