"""``python -m examples.demo_fleet``: run it, show it, and judge it by the exit code.

0 only if every check holds; 1 where one does not, or something did not come up.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from examples.demo_fleet.executor import KEYS_VARIABLE, make_keys
from examples.demo_fleet.judge import judge
from examples.demo_fleet.play import Play
from examples.demo_fleet.shop import Shop
from examples.demo_stage.checks import print_json, show_checks
from examples.demo_stage.stage import Stage, on_servers, perform
from hourhand import Settings
from tests.servers.postgres import PostgresServer


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

    def play(stage: Stage, settings: Settings) -> bool:
        # PostgreSQL's user, which is not ours, has to get to its own folder.
        stage.folder.chmod(0o755)
        with _postgres(stage.folder / "postgres") as server:
            os.environ[KEYS_VARIABLE] = make_keys()
            shop = Shop(server.create("shop"))
            checks = judge(Play(stage, settings, shop).run(orders))
        if output == "json":
            print_json(checks)
        return show_checks(stage.console, "The audit", checks)

    title = "Hourhand behind transactions of PostgreSQL, on Kafka and Cassandra"
    perform(title, on_servers(play), output=output, keep=keep)


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
