"""The page on systemd and Kubernetes: its files say what a node understands, and fit each other."""

import configparser
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from scheduler import Settings
from scheduler.cli.cli import app
from tests.documents.blocks import blocks
from tests.documents.test_console_examples import parse
from tests.tidy.source import ROOT, report

_FILES = {
    block.file: block.text for block in blocks(ROOT / "docs/guides/services.md") if block.file
}
_DRAIN_S = Settings().tree.recovery.drain_deadline_ms / 1000
_COMMAND = "/srv/shop/venv/bin/hourhand"


def _unit() -> configparser.ConfigParser:
    unit = configparser.ConfigParser()
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(_FILES["hourhand.service"])
    return unit


def _objects() -> dict[str, Any]:
    found = {each["kind"]: each for each in yaml.safe_load_all(_FILES["hourhand.yaml"])}
    assert len(found) == 4
    return found


def _pods() -> Iterator[dict[str, Any]]:
    found = _objects()
    yield from (found[kind]["spec"]["template"]["spec"] for kind in ("Job", "Deployment"))


def _read_settings(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    file = folder / "settings.toml"
    file.write_text(text, encoding="utf-8")
    monkeypatch.setenv("HOURHAND_CONFIG", str(file))
    return Settings()


@pytest.mark.parametrize("name", ["hourhand.toml", "one-machine.toml"])
def test_a_settings_file_is_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a node, which refuses what it does not know."""
    assert _read_settings(_FILES[name], tmp_path, monkeypatch).observe.port == 9464


def test_the_unit_starts_a_command_that_exists() -> None:
    """With time to drain before it is killed."""
    service = _unit()["Service"]
    command, *words = service["ExecStart"].split()

    parse(typer.main.get_command(app), "hourhand", words)
    assert command == _COMMAND
    assert int(service["TimeoutStopSec"]) > 2 * _DRAIN_S


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """As ``systemd-analyze verify`` sees it, with the paths and the user of this machine."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd is not installed here")
    text = _FILES["hourhand.service"]
    for theirs, ours in (
        (_COMMAND, str(Path(sys.executable).with_name("hourhand"))),
        ("/srv/shop", str(tmp_path)),
        ("User=hourhand", f"User={os.getuid()}"),
    ):
        assert theirs in text
        text = text.replace(theirs, ours)
    unit = tmp_path / "hourhand.service"
    unit.write_text(text, encoding="utf-8")

    done = subprocess.run(
        [analyze, "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    report(line for line in done.stderr.splitlines() if unit.name in line)


def test_each_container_runs_a_command_that_exists() -> None:
    """And reads the settings where they are mounted."""
    for pod in _pods():
        (container,) = pod["containers"]
        parse(typer.main.get_command(app), "hourhand", list(container["args"]))
        (variable,) = container["env"]
        (mounted,) = container["volumeMounts"]
        (volume,) = pod["volumes"]
        config = _objects()["ConfigMap"]

        assert variable["name"] == "HOURHAND_CONFIG"
        assert variable["value"] == f"{mounted['mountPath']}/hourhand.toml"
        assert [*config["data"]] == ["hourhand.toml"]
        assert volume == {
            "name": mounted["name"],
            "configMap": {"name": config["metadata"]["name"]},
        }


def test_the_probes_ask_what_a_node_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the port that the mounted settings name, from outside of the container."""
    found = _objects()
    settings = _read_settings(found["ConfigMap"]["data"]["hourhand.toml"], tmp_path, monkeypatch)
    (container,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    asked = [container[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")]

    assert settings.observe.host == "0.0.0.0"  # noqa: S104 - a probe comes from another machine
    assert settings.observe.port == port["containerPort"]
    assert asked == [{"path": path, "port": port["name"]} for path in ("/livez", "/readyz")]


def test_the_deployment_fits_together() -> None:
    """Selectors find its pods, and a pod has time to drain."""
    found = _objects()
    deployment = found["Deployment"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]

    assert deployment["selector"]["matchLabels"] == labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert deployment["template"]["spec"]["terminationGracePeriodSeconds"] > 2 * _DRAIN_S
