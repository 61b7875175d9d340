"""Cassandra's own operator tool, from the same jars, over a port that a test's server opens.

A server opens none by itself: ``management`` returns the Java option that makes it.
"""

import subprocess
import tempfile

from tests.servers.cassandra import JAVA_OPTIONS, cassandra_jars
from tests.servers.maven import class_path, require_tool
from tests.servers.process import SHORT_LIVED

_TIMEOUT_S = 180.0


def management(port: int) -> str:
    """Return the Java option with which a node listens to the tool, on loopback alone."""
    return f"-Dcassandra.jmx.local.port={port}"


def nodetool(port: int, *arguments: str) -> str:
    """Run one command of the tool against the node of that port and return what it printed.

    Raises CalledProcessError where the tool fails and TimeoutExpired after three minutes.
    """
    # The tool keeps a history in its user's home, and nobody asked for that here.
    with tempfile.TemporaryDirectory(prefix="hourhand-nodetool-") as home:
        done = subprocess.run(
            [
                require_tool("java"),
                "-Xmx256m",
                *SHORT_LIVED,
                f"-Duser.home={home}",
                *JAVA_OPTIONS,
                "-cp",
                class_path(cassandra_jars()),
                "org.apache.cassandra.tools.NodeTool",
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
    return done.stdout
