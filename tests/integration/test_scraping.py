"""Three real nodes, scraped by a real Prometheus that evaluates the rules beside the example."""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from hourhand import Scheduler, Settings
from hourhand.scheduler.configuration.door_settings import ObserveSettings
from hourhand.scheduler.configuration.settings import EmbeddedSettings, TopicSettings
from tests.builders import Idle
from tests.servers.ports import free_ports
from tests.servers.process import ServerProcess
from tests.servers.prometheus import PrometheusMissing, prometheus_program

FOLDER = Path(__file__).parents[2] / "docker" / "prometheus"
PATIENCE_S = 120


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Scheduler]]:
    """Run three nodes, each an installation of its own: a folder has one node at a time."""
    with ExitStack() as running:
        yield [
            running.enter_context(
                Scheduler(
                    Settings(
                        embedded=EmbeddedSettings(folder=tmp_path / f"node-{number}"),
                        topic=TopicSettings(partitions=4),
                        observe=ObserveSettings(port=0),
                    ),
                    executor=Idle,
                )
            )
            for number in (1, 2, 3)
        ]


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=30) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _asked(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return json.load(answer)["data"]


def _value(port: int, query: str) -> float | None:
    result = _asked(port, f"/api/v1/query?query={urllib.parse.quote(query)}")["result"]
    return float(result[0]["value"][1]) if result else None


def test_the_example_scrapes_nodes_and_loads_the_rules(
    tmp_path: Path, nodes: list[Scheduler]
) -> None:
    """The example as it is, except for the addresses of its targets and a shorter interval."""
    try:
        program = prometheus_program("prometheus")
    except PrometheusMissing as missing:
        pytest.skip(f"THE EXAMPLE WAS NOT RUN: {missing}")
    example = (FOLDER / "prometheus.yml").read_text(encoding="utf-8").replace("15s", "1s")
    for number, node in enumerate(nodes, start=1):
        example = example.replace(f"node-{number}:9464", f"127.0.0.1:{node.observation.port}")
    config = tmp_path / "prometheus.yml"
    config.write_text(example.replace("- rules.yml", f"- {FOLDER / 'rules.yml'}"))
    (port,) = free_ports(1)
    server = ServerProcess("Prometheus", tmp_path, logs=(tmp_path / "process.out",))
    options = [f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address=127.0.0.1:{port}"]
    server.start([str(program), f"--config.file={config}", *options])
    try:
        server.wait_until(lambda: _is_ready(port), PATIENCE_S)
        pause = Event()
        for _ in range(PATIENCE_S * 2):
            if _value(port, "sum(hourhand_owned_partitions)") == 12:
                break
            pause.wait(0.5)

        assert _value(port, 'sum(up{job="hourhand"})') == 3
        assert _value(port, "sum(hourhand_owned_partitions)") == 12
        groups = _asked(port, "/api/v1/rules")["groups"]
        written = (FOLDER / "rules.yml").read_text(encoding="utf-8").count("- alert:")
        assert [len(group["rules"]) for group in groups] == [written]
        assert {rule["health"] for group in groups for rule in group["rules"]} <= {"ok", "unknown"}
    finally:
        server.stop()
