"""The benchmark's harness on the embedded default, so that it does not rot: node, client, store."""

from dataclasses import replace
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.families import throughput
from benchmarks.servers import open_servers
from benchmarks.sizes import SMOKE


def test_the_embedded_drain_gives_a_line(tmp_path: Path) -> None:
    """A node and a client in processes of their own, and the end as the store knows it."""
    sizes = replace(SMOKE, drain_tasks=500, drain_ids=100)
    with open_servers(tmp_path / "servers", cluster=False, rivals=False) as servers:
        lines = throughput.run(Bench(servers, sizes, frozenset({"embedded"})))

    (line,) = lines
    assert line.measure == "embedded"
    assert line.figure.value > 0
    assert line.met is None, "no rival was there to judge it by"
