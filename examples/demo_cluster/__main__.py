"""``python -m examples.demo_cluster``: run it, show it, and judge it by the exit code.

0 only if every check holds; 1 where one does not, or something did not come up.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from examples.demo_cluster.installation import Assignor, open_installation
from examples.demo_cluster.judge import judge, measure
from examples.demo_cluster.play import Play
from examples.demo_cluster.show import as_value, show
from hourhand import HourhandError
from hourhand.scheduler.demo.node import NodeFailed
from tests.servers.maven import FetchFailed, ToolMissing
from tests.servers.process import ServerFailed
from tests.servers.termination import terminate_as_interrupt


def main(
    *,
    tasks: Annotated[
        int, typer.Option(min=1_000, max=100_000, help="Tasks of the main part.")
    ] = 20_000,
    assignor: Annotated[
        Assignor, typer.Option(help="How the group deals out partitions; the last two are eager.")
    ] = "cooperative-sticky",
    output: Annotated[
        Literal["text", "json"], typer.Option(help="json: one line, for programs.")
    ] = "text",
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the nodes' logs and the executors' records.")
    ] = False,
) -> None:
    """Run tasks on real Kafka and Cassandra with three nodes, one of which is killed."""
    console = Console(stderr=output == "json")
    folder = Path(tempfile.mkdtemp(prefix="hourhand-cluster-"))
    terminate_as_interrupt()
    console.print("[bold]Hourhand[/] on real Kafka and Cassandra\n")
    holds = False
    try:
        holds = _run(console, folder, tasks, assignor, as_json=output == "json")
    except (NodeFailed, HourhandError, ToolMissing, FetchFailed, ServerFailed) as error:
        console.print("\n[bold red]It did not come to an end:[/]")
        console.print(str(error), highlight=False, markup=False)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        console.print("interrupted: nothing is left behind")
        sys.exit(130)
    if keep or not holds:
        console.print(f"What the nodes said and the executors wrote is in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0 if holds else 1)


def _run(console: Console, folder: Path, tasks: int, assignor: Assignor, *, as_json: bool) -> bool:
    def say(text: str) -> None:
        console.print(f"  [green]●[/] {text}", highlight=False)

    with open_installation(folder / "servers", assignor, say) as settings:
        evidence = Play(settings, folder / "run", say).run(tasks)
    checks, figures = judge(evidence), measure(evidence)
    show(console, checks, figures)
    if as_json:
        print(json.dumps(as_value(checks, figures), separators=(",", ":")))
    return all(check.holds for check in checks)


if __name__ == "__main__":
    typer.run(main)
