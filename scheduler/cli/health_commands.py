"""``hourhand health``: what a running node says of itself.

Asks the node's own probe server; decides only how the answer is shown, and the exit code.
"""

# ruff: noqa: D301 - a backspace in a help text is click's mark for lines to keep
import json
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from ipaddress import ip_address
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from actors.model.errors import NodeUnhealthy, SettingsInvalid
from scheduler.cli.rendering import OutputFormat, as_json
from scheduler.cli.session import CommandOptions, OutputOption, command_session
from scheduler.configuration.settings import Settings

_TIMEOUT_S = 15.0


def health(
    *,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Address of the node, if observe.port is not set."),
    ] = None,
    common: CommandOptions,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Ask a running node whether it is healthy.

    Exit code 0 if it is, 3 if it is not or does not answer.

    \b
    Examples:
      hourhand health --set observe.port=9464
      hourhand health --url http://10.0.0.7:9464 --output json
    """
    with command_session(common) as settings:
        address = url.rstrip("/") if url is not None else _address(settings)
        answer = _asked(address)
        if output is OutputFormat.JSON:
            typer.echo(as_json(answer))
        else:
            _show(answer)
        failing = [name for name, check in answer["checks"].items() if not check["ok"]]
        if failing:
            raise NodeUnhealthy(f"{address} is not ready: {', '.join(failing)}")


def _address(settings: Settings) -> str:
    observe = settings.observe
    if not observe.port:
        raise SettingsInvalid(
            "observe.port names no port, so no node can be asked: set it as the node's is, such"
            " as --set observe.port=9464, or name one with --url"
        )
    return f"http://{_reached(observe.host)}:{observe.port}"


def _reached(host: str) -> str:
    """Return where a node is asked that listens on ``host``: on every address, on loopback."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if address.version == 6:
        return "[::1]" if address.is_unspecified else f"[{address}]"
    return "127.0.0.1" if address.is_unspecified else host


def _asked(address: str) -> dict[str, Any]:
    parts = urlsplit(address)
    if parts.scheme != "http" or not parts.hostname:
        raise SettingsInvalid(f"{address!r} is not an address: expected http://host:port")
    try:
        connection = HTTPConnection(parts.hostname, parts.port, timeout=_TIMEOUT_S)
        with closing(connection):
            connection.request("GET", f"{parts.path}/healthz?full=1")
            body = connection.getresponse().read()
    except (OSError, ValueError, HTTPException) as error:
        raise NodeUnhealthy(f"{address} does not answer: {error}") from None
    try:
        found = json.loads(body)
        answer: dict[str, Any] = {**found, "checks": dict(found["checks"])}
    except (ValueError, KeyError, TypeError):
        raise NodeUnhealthy(f"{address} answers, but is not a node: {body[:100]!r}") from None
    return answer


def _show(answer: dict[str, Any]) -> None:
    for name, check in answer["checks"].items():
        typer.echo(f"{'ok     ' if check['ok'] else 'FAILING'} {name}: {check['detail']}")
