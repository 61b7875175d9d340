"""Fetches server jars from Maven into a cache folder, once.

A set of artifacts with all its dependencies lands in one folder whose name holds a digest of
the exact versions, so another version never mixes with an old one.  A file lock lets several
test runs share the cache.  Maven's output is shown only when it fails.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

CACHE_VARIABLE = "HOURHAND_CACHE"
REPOSITORY = Path(__file__).resolve().parents[2]

_COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_FETCH_TIMEOUT_S = 900
_STAMP = ".complete"
_PACKAGES = {
    "java": "a Java 17 runtime (Debian: openjdk-17-jdk-headless)",
    "mvn": "Apache Maven 3.8 or later (Debian: maven)",
}


class ToolMissing(RuntimeError):
    """A program the servers need is not installed; the message names what to install."""


class FetchFailed(RuntimeError):
    """Maven could not bring the jars; the message holds the end of its output."""


def require_tool(program: str) -> str:
    """Return the full path of ``program``; raises ToolMissing with one line to act on."""
    path = shutil.which(program)
    if path is None:
        raise ToolMissing(
            f"{program} is not on the PATH: install {_PACKAGES.get(program, program)}"
        )
    return path


def cache_folder() -> Path:
    """Return where downloads are kept: ``HOURHAND_CACHE``, or ``.cache/servers`` of the tree."""
    return Path(os.environ.get(CACHE_VARIABLE) or REPOSITORY / ".cache" / "servers").resolve()


def fetch_jars(name: str, coordinates: Sequence[str], *, excluded: Sequence[str] = ()) -> Path:
    """Return a folder with these artifacts and everything they need, fetching it if need be.

    ``coordinates`` are ``group:artifact:version``, ``excluded`` are ``group:artifact``.
    Raises ToolMissing and FetchFailed.
    """
    pom = _pom(name, coordinates, excluded)
    digest = hashlib.sha256(pom.encode()).hexdigest()[:12]
    folder = cache_folder() / f"{name}-{digest}"
    if (folder / _STAMP).exists():
        return folder
    maven = require_tool("mvn")
    with _locked(cache_folder() / f"{name}.lock"):
        if not (folder / _STAMP).exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            (folder / "pom.xml").write_text(pom)
            _copy_dependencies(maven, folder)
            (folder / _STAMP).touch()
    return folder


def class_path(jars: Path, *folders: Path) -> str:
    """Return a Java class path of ``folders`` (configuration) and then all ``jars``."""
    return os.pathsep.join([*(str(folder) for folder in folders), f"{jars}/*"])


def _copy_dependencies(maven: str, folder: Path) -> None:
    command = [
        maven,
        "-B",
        "-q",
        "-f",
        str(folder / "pom.xml"),
        _COPY_GOAL,
        f"-DoutputDirectory={folder}",
    ]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_FETCH_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FetchFailed(f"Maven fetched nothing within {_FETCH_TIMEOUT_S} s") from error
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-20:])
        raise FetchFailed(f"Maven could not fetch {folder.name} (is the network there?):\n{tail}")


def _pom(name: str, coordinates: Sequence[str], excluded: Sequence[str]) -> str:
    exclusions = "".join(
        f"<exclusion><groupId>{group}</groupId><artifactId>{artifact}</artifactId></exclusion>"
        for group, artifact in (pair.split(":") for pair in excluded)
    )
    dependencies = "\n".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version><exclusions>{exclusions}</exclusions></dependency>"
        for group, artifact, version in (each.split(":") for each in coordinates)
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>hourhand</groupId>"
        f"<artifactId>{name}</artifactId><version>1</version>\n"
        f"<dependencies>\n{dependencies}\n</dependencies></project>\n"
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
