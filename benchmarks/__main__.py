"""``python -m benchmarks run|profile|page``: take measures, sample one, or write the page.

``run`` prints a table and one JSON line a comparison, and keeps both.  It ends with 0 whatever
the figures say: a goal that is not met is a result, not a failure.
"""

import argparse
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import catalogue, report, sizes
from benchmarks.bench import Bench
from benchmarks.families import (
    batches,
    beside_drain,
    enqueueing,
    lateness,
    occurrences,
    relay,
    shapes,
    shares,
    throughput,
    timers,
)
from benchmarks.figures import Line
from benchmarks.interpreter import runs_optimized
from benchmarks.machine import (
    NotComparable,
    commit,
    load_average,
    machine,
    require_compiled_drivers,
)
from benchmarks.program import ROOT, ProgramFailed
from benchmarks.servers import open_servers
from tests.servers.maven import FetchFailed, ToolMissing
from tests.servers.process import ServerFailed
from tests.servers.termination import terminate_as_interrupt

BUILD = ROOT / "build" / "bench"
RESULTS = BUILD / "results.jsonl"
PAGE = ROOT / "docs" / "performance.md"
IMAGES = ROOT / "docs" / "images"
_PLAIN_PYTHON = f"""\
*** {sys.base_prefix} was built without optimizations: what runs in Python will be too slow.
*** Install another Python (Debian: python3 python3-venv), then: rm -r .venv; make venv
"""


def main(arguments: list[str]) -> int:
    """Run one command; 2 where something is missing, 1 where something failed, 130 on Ctrl-C or
    SIGTERM, when no server is left behind.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("command", choices=("run", "profile", "page"))
    parser.add_argument("--only", default="", help="measures, with commas between")
    parser.add_argument("--version", default="quick", choices=sorted(sizes.ALL))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--without-rivals", action="store_true")
    parser.add_argument("--waiting", action="store_true", help="sample what waits, too")
    told = parser.parse_args(arguments)
    terminate_as_interrupt()
    try:
        require_compiled_drivers()
        if told.command == "page":
            return _page(told.results)
        wanted = catalogue.chosen(told.only)
        if not told.only:
            wanted -= sizes.ALL[told.version].left_out
        if told.command == "profile":
            return _profile(wanted, sizes.ALL[told.version], holding_gil=not told.waiting)
        rivals = not told.without_rivals
        return _run(wanted, sizes.ALL[told.version], told.results, rivals=rivals)
    except (NotComparable, ToolMissing, catalogue.UnknownMeasure) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except (FetchFailed, ServerFailed, ProgramFailed, TimeoutError) as error:
        sys.stderr.write(f"the benchmark failed: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: nothing is left behind\n")
        return 130


def _run(wanted: frozenset[str], version: sizes.Sizes, results: Path, *, rivals: bool) -> int:
    began_s = time.monotonic()
    _tell_where(version)
    where = {"machine": machine(), "commit": commit(), "version": version.name}
    taken = _Taken()
    with open_servers(
        BUILD / "servers",
        cluster=bool(wanted - catalogue.WITHOUT_CLUSTER),
        rivals=rivals and bool(wanted & catalogue.WITH_RIVALS),
    ) as servers:
        taken.took_s["servers"] = time.monotonic() - began_s
        bench = Bench(servers, version, wanted, with_rivals=rivals)
        with bench.kept:
            _take(bench, where, results, taken)
    report.show(taken.rows)
    if version is sizes.QUICK:
        sys.stderr.write(f"Only with BENCH=full: {'; '.join(sizes.ONLY_FULL)}.\n")
        sys.stderr.write(f"Only where named: {', '.join(sorted(version.left_out))}.\n")
    longest = sorted(taken.took_s.items(), key=lambda each: -each[1])
    sys.stderr.write(f"Took {', '.join(f'{name} {took_s:.0f} s' for name, took_s in longest)}\n")
    sys.stderr.write(f"{time.monotonic() - began_s:.0f} s; results are in {results}\n")
    if taken.failed:
        sys.stderr.write(f"*** Not measured, as told above: {', '.join(taken.failed)}\n")
    return 1 if taken.failed else 0


@dataclass
class _Taken:
    """Results of one call so far."""

    rows: list[report.Row] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    took_s: dict[str, float] = field(default_factory=dict)
    """By family; the start of servers that several of them use is apart."""


def _take(bench: Bench, where: dict[str, str], results: Path, taken: _Taken) -> None:
    """Take the wanted measures, family by family."""
    earlier: tuple[list[report.Row], report.Curves] = ([], {})
    if results.exists():
        earlier = report.read_results(results)
    for family in catalogue.FAMILIES:
        if not bench.wanted & set(family.MEASURES):
            continue
        name, began_s = family.__name__.rpartition(".")[2], time.monotonic()
        try:
            lines: list[Line] = family.run(bench)
            taken.rows += [line.as_json(**where) for line in lines]
        except Exception:  # noqa: BLE001 - told below, whole
            # A failure of one family is shown, and the others are still measured.
            taken.failed.append(name)
            bench.say(f"{name} failed:\n{traceback.format_exc()}")
        taken.took_s[name] = time.monotonic() - began_s
        bench.say(f"{name} took {taken.took_s[name]:.0f} s")
        # After each family: what was measured is kept, whatever comes.
        if taken.rows:
            known = report.merged(earlier[0], taken.rows)
            report.write_results(results, known, {**earlier[1], **bench.curves})


def _tell_where(version: sizes.Sizes) -> None:
    """Name the machine, and what of it makes figures too low."""
    sys.stderr.write(f"{machine()}, load {load_average():.2f}, version {version.name}\n")
    if load_average() > 1.0:
        sys.stderr.write("*** Something else runs here: these figures will be too low.\n")
    if not runs_optimized():
        sys.stderr.write(_PLAIN_PYTHON)


def _profile(wanted: frozenset[str], version: sizes.Sizes, *, holding_gil: bool) -> int:
    from benchmarks.profile import Sampler

    names = ", ".join(sorted(wanted))
    sampler = Sampler(BUILD / "profile", holding_gil)
    with open_servers(
        BUILD / "servers",
        cluster=bool(wanted - catalogue.WITHOUT_CLUSTER),
        rivals=bool(wanted & set(batches.MEASURES)),
    ) as servers:
        if not _sampled(Bench(servers, version, wanted, profiler=sampler.attach)):
            sys.stderr.write(f"{names} has no process to sample; others have\n")
            return 2
        profile = sampler.finish()
    path = BUILD / f"profile-{names.replace(', ', '-')}.txt"
    path.write_text(profile.show(names), encoding="utf-8")
    sys.stderr.write(f"the summary is in {path}\n")
    return 0


def _sampled(bench: Bench) -> bool:
    """Run the first of the wanted measures that has a process to sample; False without one."""
    wanted = bench.wanted
    if wanted & {"drain_cluster"}:
        bench.say(f"{throughput.hourhand(bench).per_s:,.0f} tasks/s while sampled")
    elif wanted & {"embedded"}:
        bench.say(f"{throughput.embedded(bench).per_s:,.0f} tasks/s while sampled")
    elif found := wanted & shapes.WORKS.keys():
        bench.say(throughput.summary(shapes.WORKS[min(found)](bench)))
    elif wanted & set(beside_drain.MEASURES):
        beside_drain.run(bench)
    elif wanted & set(shares.MEASURES):
        shares.run(bench)
    elif wanted & set(occurrences.MEASURES):
        occurrences.run(bench)
    elif wanted & set(batches.MEASURES) and bench.servers.postgres is not None:
        bench.say(throughput.summary(batches.in_batches(bench)))
    elif found := wanted & lateness.RATES.keys():
        with bench.servers.installation("profile") as settings:
            lateness.hourhand(bench, settings, lateness.RATES[min(found)])
    elif wanted & set(enqueueing.MEASURES):
        enqueueing.run(bench)
    elif found := wanted & relay.RATES.keys():
        relay.passed_on_at(bench, relay.RATES[min(found)])
    elif wanted & {"timers_create"}:
        with timers.installation(bench) as settings:
            timers.created_per_s(bench, settings, "timers_node")
    elif wanted & {"timers_pop"}:
        with timers.installation(bench) as settings:
            timers.pops(bench, settings)
    else:
        return False
    return True


def _page(results: Path) -> int:
    from benchmarks.plots import draw

    if not results.exists():
        sys.stderr.write(f"{results} is missing: run make bench first\n")
        return 2
    rows, curves = report.read_results(results)
    images = draw(rows, curves, IMAGES)
    PAGE.write_text(
        report.fill_page(PAGE.read_text(encoding="utf-8"), rows, images), encoding="utf-8"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
