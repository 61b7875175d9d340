"""``python -m examples.demo_cluster``: run it, show it, and judge it by the exit code.

0 only if every check holds; 1 where one does not, or something did not come up.
"""

from dataclasses import asdict
from typing import Annotated, Literal

import typer

from examples.demo_cluster.judge import judge, measure
from examples.demo_cluster.play import Play
from examples.demo_cluster.show import show_figures
from examples.demo_stage.checks import print_json, show_checks
from examples.demo_stage.installation import Assignor
from examples.demo_stage.stage import Stage, on_servers, perform
from hourhand import Settings


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

    def play(stage: Stage, settings: Settings) -> bool:
        evidence = Play(stage, settings).run(tasks)
        checks, figures = judge(evidence), measure(evidence)
        holds = show_checks(stage.console, "The audit", checks)
        show_figures(stage.console, figures)
        if output == "json":
            print_json(checks, figures=asdict(figures))
        return holds

    title = "Hourhand on real Kafka and Cassandra"
    perform(title, on_servers(play, assignor), output=output, keep=keep)


if __name__ == "__main__":
    typer.run(main)
