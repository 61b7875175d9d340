"""``make chaos``: ten minutes of faults or more on real servers, then the table; twice.

First the engine at its full load, then a smaller one with the doors beside it: a relay and a timer
service on every node, whose single requests would leave two cores no idle time at the full load.
Exit code 0 only if every requirement is met; 1 where one is not, or something did not come up.
"""

import json
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from hourhand import HourhandError
from hourhand.scheduler.demo.node import NodeFailed
from tests.chaos.installation import GroupProtocol, open_servers
from tests.chaos.measures import measure
from tests.chaos.plan import EVERY_MANNER, FULL, WHOLE, Extent, Kind
from tests.chaos.run import Chaos, run_chaos
from tests.chaos.table import show
from tests.chaos.verdict import Limits, Verdict, judge
from tests.judge.causes import Rules
from tests.judge.recount import recount
from tests.servers.maven import FetchFailed, ToolMissing
from tests.servers.preload import CannotPreload
from tests.servers.process import ServerFailed
from tests.servers.termination import terminate_as_interrupt

_WIDTH = 140
"""Width of a table that goes to a file."""
_TASKS_PER_S = 500
_TASKS_PER_S_BESIDE_DOORS = 50
"""Relay and timers leave two cores little time for more; without idle time, recovery measures the
machine."""
_PROTOCOL = typer.Option(envvar="CHAOS_PROTOCOL", help="How group and brokers agree (KIP-848).")
_TOLD = (NodeFailed, HourhandError, ToolMissing, FetchFailed, ServerFailed, CannotPreload)
"""Errors whose text says all that a reader needs."""
Faults = Literal["all", "processes", "around"]
_KINDS: dict[Faults, Sequence[Kind]] = {"all": WHOLE, "processes": FULL, "around": EVERY_MANNER}
"""Kinds of faults of a run; it picks surroundings by its seed, or brings all of them."""
_FAULTS = typer.Option(envvar="CHAOS_FAULTS", help="`around`: links, clocks and disks alone.")
_LEAD_S = 34.0
"""Order is judged on pairs accepted 30 s before the first was due."""


def main(
    *,
    minutes: Annotated[
        float, typer.Option(min=1, max=24 * 60, envvar="CHAOS_MINUTES", help="At least so long.")
    ] = 10.0,
    seed: Annotated[
        int | None,
        typer.Option(envvar="CHAOS_SEED", help="Of the plan; drawn where none is given."),
    ] = None,
    tasks_per_s: Annotated[
        int | None,
        typer.Option(min=10, max=5_000, help="500; 100 with the doors.", show_default=False),
    ] = None,
    doors: Annotated[
        bool | None,
        typer.Option(
            envvar="CHAOS_DOORS",
            help="With relays and timers, or without; else one after the other.",
        ),
    ] = None,
    protocol: Annotated[GroupProtocol, _PROTOCOL] = "classic",
    faults: Annotated[Faults, _FAULTS] = "all",
    figures: Annotated[
        Path,
        typer.Option(
            envvar="CHAOS_FIGURES", help="Where the figures go, as JSON; -doors is added."
        ),
    ] = Path("build/chaos.json"),
    keep: Annotated[bool, typer.Option("--keep", help="Keep logs and records.")] = False,
) -> None:
    """Let nodes, brokers and stores die under load, and recount."""
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    extent = Extent(4, 3, 3, seconds=minutes * 60, kinds=_KINDS[faults])
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    terminate_as_interrupt()
    held = True
    for beside in (False, True) if doors is None else (doors,):
        rate = tasks_per_s or (_TASKS_PER_S_BESIDE_DOORS if beside else _TASKS_PER_S)
        chaos = Chaos(seed, extent, rate, _LEAD_S, beside, protocol)
        held &= _holds(console, chaos, _figures_of(figures, chaos), keep=keep)
    sys.exit(0 if held else 1)


def _figures_of(figures: Path, chaos: Chaos) -> Path:
    return figures.with_stem(f"{figures.stem}-doors") if chaos.doors else figures


def _holds(console: Console, chaos: Chaos, figures: Path, *, keep: bool) -> bool:
    folder = Path(tempfile.mkdtemp(prefix="hourhand-chaos-"))
    try:
        verdict = _run(console, chaos, folder)
    except _TOLD as error:
        console.print(f"It did not come to an end: {error}", highlight=False, markup=False)
        verdict = None
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        sys.exit(130)
    holds = verdict is not None and verdict.holds
    if verdict:
        _write(figures, verdict)
        console.print(f"The figures are in {figures}")
    if keep or not holds:
        console.print(f"What nodes, servers and executors wrote is in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return holds


def _run(console: Console, chaos: Chaos, folder: Path) -> Verdict:
    def say(text: str) -> None:
        console.print(f"  {time.strftime('%H:%M:%S')}  {text}", highlight=False)

    extent = chaos.extent
    say(
        f"seed {chaos.seed}, {'with' if chaos.doors else 'without'} doors, {chaos.protocol}"
        f" protocol; starting"
        f" {extent.brokers} brokers and {extent.store_nodes} Cassandra nodes (two minutes)"
    )
    records = folder / "records"
    records.mkdir()
    servers = folder / "servers"
    with open_servers(servers, extent.brokers, extent.store_nodes, chaos.protocol) as installation:
        evidence = run_chaos(chaos, installation, records, say)
    findings = recount(evidence.history, Rules())
    verdict = judge(chaos, evidence, findings, measure(evidence.history), Limits())
    show(console, verdict)
    return verdict


def _write(path: Path, verdict: Verdict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(verdict.as_value(), indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
