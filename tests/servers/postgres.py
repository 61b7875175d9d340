"""A PostgreSQL of our own, for the tests of the outbox and for rivals: own port, own folder.

It runs as the user ``postgres`` where the caller is root, as PostgreSQL refuses root, and as
the caller otherwise.  It never touches a server that runs already.
"""

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.servers.maven import ToolMissing
from tests.servers.ports import free_ports
from tests.servers.process import ServerProcess, accepts_connections

_HOST = "127.0.0.1"
_USER = "postgres"
_START_TIMEOUT_S = 60.0
_INSTALL_TIMEOUT_S = 600
_OPTIONS = (f"listen_addresses={_HOST}", "unix_socket_directories=")
BENCHMARK_OPTIONS = ("shared_buffers=1GB", "max_wal_size=4GB", "max_connections=300")
"""What a machine of this size would be given; durability is left at its defaults."""


class PostgresMissing(ToolMissing):
    """PostgreSQL is not there and cannot be installed here; the message says what to do."""


class PostgresServer:
    """One server with any number of databases, copied from a template where that is faster."""

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        self._options = (*_OPTIONS, *options)
        self._programs = _programs()
        self._folder = folder.resolve()
        self._port_file = self._folder / "port"
        taken_up = self._port_file.is_file()
        self._port = int(self._port_file.read_text()) if taken_up else free_ports(1)[0]
        self._as_user: list[str] = []
        if os.geteuid() == 0:
            self._as_user = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--init-groups"]
        self._process = ServerProcess(
            "PostgreSQL", self._folder, logs=(self._folder / "process.out",)
        )

    def start(self) -> None:
        """Make the data folder again and start, unless it runs.

        Raises PostgresMissing and ServerFailed.
        """
        if self._process.pid is not None:
            return
        data = self._folder / "data"
        shutil.rmtree(self._folder, ignore_errors=True)
        data.mkdir(parents=True)
        self._port_file.write_text(str(self._port))
        if self._as_user:
            shutil.chown(data, _USER, _USER)
        initdb, postgres = (str(self._programs / name) for name in ("initdb", "postgres"))
        how = ["-U", _USER, "--auth=trust", "--no-sync", "-E", "UTF8", "--no-locale"]
        made = subprocess.run(
            [*self._as_user, initdb, "-D", str(data), *how],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise PostgresMissing(f"initdb failed in {data}:\n{made.stderr[-1500:]}")
        options = [word for option in self._options for word in ("-c", option)]
        self._process.start(
            [*self._as_user, postgres, "-D", str(data), "-p", str(self._port), *options]
        )
        self._process.wait_until(self._answers, _START_TIMEOUT_S)

    def _answers(self) -> bool:
        """True if it lets somebody in; it takes connections while it still starts."""
        if not accepts_connections(_HOST, self._port):
            return False
        psycopg = importlib.import_module("psycopg")
        try:
            self.connect(_USER).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """Stop it; a no-op where it does not run."""
        self._process.stop()

    @property
    def pid(self) -> int | None:
        """The process that starts one for each connection; None where it does not run."""
        return self._process.pid

    def url(self, database: str) -> str:
        """Return the address of a database."""
        return f"postgresql://{_USER}@{_HOST}:{self._port}/{database}"

    def create(self, database: str, template: str = "template0") -> str:
        """Make a database as a copy of ``template`` and return its address."""
        with self.connect(_USER) as connection:
            connection.execute(f'CREATE DATABASE "{database}" TEMPLATE "{template}"')
        return self.url(database)

    def drop(self, database: str) -> None:
        """Remove a database, whoever is connected to it."""
        with self.connect(_USER) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)')

    def connect(self, database: str) -> Any:
        """Open a connection that commits each statement by itself."""
        psycopg = importlib.import_module("psycopg")
        return psycopg.connect(self.url(database), autocommit=True)


def _programs() -> Path:
    """Return the folder of PostgreSQL's programs, installing them where that is possible."""
    found = _installed()
    apt = shutil.which("apt-get")
    if found is None and os.geteuid() == 0 and apt is not None:
        sys.stderr.write("Installing Debian's postgresql …\n")
        # Without a run level Debian starts no server of its own after the installation.
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        for step in (["update"], ["install", "-y", "--no-install-recommends", "postgresql"]):
            subprocess.run(
                [apt, "-qq", *step],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_INSTALL_TIMEOUT_S,
                check=False,
            )
        found = _installed()
    if found is None:
        raise PostgresMissing(
            "PostgreSQL is not installed: install it (Debian: apt-get install postgresql)"
        )
    return found


def _installed() -> Path | None:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = shutil.which("initdb")
    if on_path is not None:
        folders.append(Path(on_path).resolve().parent)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return None
