"""``python -m examples.demo_fleet``: run it, show it, and judge it by the exit code.

0 only if every check holds; 1 where one does not, or something did not come up.
"""

import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from examples.demo_cluster.installation import open_installation
from examples.demo_cluster.show import Check, show_checks
from examples.demo_fleet.executor import KEYS_VARIABLE, make_keys
from examples.demo_fleet.judge import judge
from examples.demo_fleet.play import Play
from examples.demo_fleet.shop import Shop
from hourhand import HourhandError
from hourhand.scheduler.demo.node import NodeFailed
from tests.servers.maven import FetchFailed, ToolMissing
from tests.servers.postgres import PostgresServer
from tests.servers.process import ServerFailed
from tests.servers.termination import terminate_as_interrupt


def main(
    *,
    orders: Annotated[int, typer.Option(min=300, max=20_000, help="Orders to place.")] = 600,
    output: Annotated[
        Literal["text", "json"], typer.Option(help="json: one line, for programs.")
    ] = "text",
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the processes' logs and the executors' records.")
    ] = False,
) -> None:
    """Schedule within transactions of PostgreSQL while movers and nodes are killed."""
    console = Console(stderr=output == "json")
    folder = Path(tempfile.mkdtemp(prefix="hourhand-fleet-"))
    # PostgreSQL's user, which is not ours, has to get to its own folder.
    folder.chmod(0o755)
    terminate_as_interrupt()
    console.print("[bold]Hourhand[/] behind transactions of PostgreSQL, on Kafka and Cassandra\n")
    holds = False
    try:
        checks = _run(console, folder, orders)
        show_checks(console, checks)
        holds = all(check.holds for check in checks)
        if output == "json":
            value = {"holds": holds, "checks": [asdict(check) for check in checks]}
            print(json.dumps(value, separators=(",", ":")))
    except (NodeFailed, HourhandError, ToolMissing, FetchFailed, ServerFailed) as error:
        console.print("\n[bold red]It did not come to an end:[/]")
        console.print(str(error), highlight=False, markup=False)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        console.print("interrupted: nothing is left behind")
        sys.exit(130)
    if keep or not holds:
        console.print(f"What the processes said and the executors wrote is in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0 if holds else 1)


def _run(console: Console, folder: Path, orders: int) -> list[Check]:
    def say(text: str) -> None:
        console.print(f"  [green]●[/] {text}", highlight=False)

    with (
        _postgres(folder / "postgres") as server,
        open_installation(folder / "servers", "cooperative-sticky", say) as settings,
    ):
        os.environ[KEYS_VARIABLE] = make_keys()
        shop = Shop(server.create("shop"))
        return judge(Play(settings, shop, folder / "run", say).run(orders))


@contextlib.contextmanager
def _postgres(folder: Path) -> Iterator[PostgresServer]:
    server = PostgresServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()


if __name__ == "__main__":
    typer.run(main)
