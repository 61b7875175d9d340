"""Ports for servers: nobody else gets one between its choice and its use, nor afterwards."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.ports import free_ports

COUNT = 50
ROOT = Path(__file__).parents[3]
_ASKS = f"""
from tests.servers.ports import free_ports
print(*free_ports({COUNT}), flush=True)
input()
"""
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def asking() -> "subprocess.Popen[str]":
    """Start a process that asks for ports, and keeps them until it reads the end of a line."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", _ASKS], cwd=ROOT, stdin=pipe, stdout=pipe, text=True
    )


def test_no_two_processes_are_given_the_same_port() -> None:
    """Though none of them listens yet; nor does one process get a port twice."""
    given = [*free_ports(COUNT), *free_ports(COUNT)]
    others = [asking() for _ in range(2)]
    try:
        for each in others:
            assert each.stdout is not None
            given += [int(port) for port in each.stdout.readline().split()]
    finally:
        for each in others:
            each.communicate("\n", timeout=60)

    assert len(set(given)) == len(given) == 4 * COUNT


@pytest.mark.skipif(not RANGE.exists(), reason="the system does not tell")
def test_no_connection_that_somebody_opens_is_given_a_servers_port() -> None:
    """A client that tries a server again and again, while it is down, would take its port."""
    first_of_clients = int(RANGE.read_text().split()[0])
    if first_of_clients <= 10_000:
        pytest.skip("the system gives connections every port")

    assert all(port < first_of_clients for port in free_ports(COUNT))
