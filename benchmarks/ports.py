"""Ports that nothing listens on yet; whether that is still so when they are used is not known."""

import socket


def free_port() -> int:
    """Return a port of loopback."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
