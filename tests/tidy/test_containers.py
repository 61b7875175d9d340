"""What docker/ says, as far as it can be held against the project without a container engine.

``make compose-demo`` and ``make test-containers`` run it; here a wrong name or an old version is
found in seconds.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.scheduler.configuration.settings import Settings
from tests.servers import images
from tests.tidy.source import ROOT, project_metadata, report
from tests.wheel import BUILT_FROM

DOCKER = ROOT / "docker"
COMPLETE = ("compose.yaml", "compose.cluster.yaml")
IN_PARTS = ("compose.demo.yaml",)
"""Put on top of another one."""
PINNED = {
    "NODE_IMAGE": images.NODE_IMAGE,
    "KAFKA_IMAGE": images.KAFKA_IMAGE,
    "CASSANDRA_IMAGE": images.CASSANDRA_IMAGE,
    "BASE_IMAGE": images.BASE_IMAGE,
}
NODE_DOCKERFILE = DOCKER / "node" / "Dockerfile"
_VARIABLE = re.compile(r"\$\{([A-Z_]+)(?::(-|\?)([^}]*))?\}")


def _interpolated(text: str) -> str:
    """Put defaults in, as compose does, and a word where a value must be set."""
    return _VARIABLE.sub(lambda found: found[3] if found[2] == "-" else "told-by-operator", text)


def _compose(name: str) -> dict[str, Any]:
    # A list within a default, ["localhost"], is text to compose: it reads YAML before variables.
    read = yaml.safe_load((DOCKER / name).read_text())

    def filled(value: Any) -> Any:
        match value:
            case str():
                return _interpolated(value)
            case dict():
                return {key: filled(each) for key, each in value.items()}
            case list():
                return [filled(each) for each in value]
            case _:
                return value

    found: dict[str, Any] = filled(read)
    return found


def _services(*names: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in names or COMPLETE:
        for service, described in _compose(name)["services"].items():
            yield f"{name}: {service}", described


def _own(*names: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the services that run Hourhand."""
    for where, service in _services(*names):
        if service.get("image", images.NODE_IMAGE) == images.NODE_IMAGE:
            yield where, service


def _instructions(path: Path) -> list[tuple[str, str]]:
    """Return a Dockerfile's instructions, each with its argument on one line."""
    text = re.sub(r"(?m)^#.*\n", "", path.read_text()).replace("\\\n", " ")
    return [
        (name, " ".join(rest.split()))
        for name, _, rest in (line.partition(" ") for line in text.splitlines() if line.strip())
    ]


def _last_stage(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, argument in _instructions(path):
        if name == "FROM":
            found = {}
        found[name] = argument
    return found


@pytest.mark.parametrize("name", COMPLETE)
def test_services_start_in_order_within_limits(name: str) -> None:
    """Each says how much it may take, when it is healthy, and what must be there before it."""
    compose = _compose(name)
    services = compose["services"]
    complaints = []
    for service, described in services.items():
        if "mem_limit" not in described or "restart" not in described:
            complaints.append(f"{service} has no limit of memory, or does not say when it restarts")
        if described["image"] != images.NODE_IMAGE and "healthcheck" not in described:
            complaints.append(f"{service} does not say when it is healthy")
        if described["networks"] != list(compose["networks"]):
            complaints.append(f"{service} is not in the project's own network")
        for needed, condition in described.get("depends_on", {}).items():
            ends = services[needed]["command"] == ["migrate"] if needed == "migrate" else False
            wanted = "service_completed_successfully" if ends else "service_healthy"
            if condition["condition"] != wanted:
                complaints.append(f"{service} waits for {needed}, but not until {wanted}")
        for volume in described.get("volumes", ()):
            source = volume.partition(":")[0]
            if not source.startswith(".") and source not in compose["volumes"]:
                complaints.append(f"{service} uses the volume {source}, which is not declared")
    report(complaints)


def test_own_services_have_no_more_rights_than_they_need() -> None:
    """No root, no capability, nothing to write but its volume; time to stop."""
    report(
        f"{where} is not confined"
        for where, service in _own()
        if not service["read_only"]
        or service["cap_drop"] != ["ALL"]
        or service["security_opt"] != ["no-new-privileges:true"]
        or service["stop_grace_period"] != "30s"
    )


def test_ports_are_published_to_this_machine_only() -> None:
    """Whoever wants more says so, and reads about tokens and encryption first."""
    published = [port for _, service in _services() for port in service.get("ports", ())]

    assert len(published) == 4
    assert all(port.startswith("127.0.0.1:") for port in published), published


def test_every_variable_of_the_compose_files_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name and value are read by the settings themselves, with what the image sets."""
    of_image = dict(
        pair.split("=", 1) for pair in re.findall(r"HOURHAND_\S+=\S+", NODE_DOCKERFILE.read_text())
    )
    tried = 0
    for where, service in _own(*COMPLETE, *IN_PARTS):
        variables = {**of_image, **service.get("environment", {})}
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            try:
                told = Settings().model_dump(mode="json")
            except SettingsInvalid as error:
                pytest.fail(f"{where}: {error}")
        for name in (each for each in variables if each.startswith("HOURHAND_")):
            found: Any = told
            for part in name.removeprefix("HOURHAND_").lower().split("__"):
                found = found[part]
            tried += 1
        assert told["observe"]["port"] == 9464, where
    assert tried > 100


def test_a_variable_that_is_no_setting_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above could not fail otherwise."""
    monkeypatch.setenv("HOURHAND_KAFKA__BOOTSTRAP", "kafka:9092")

    with pytest.raises(SettingsInvalid, match=r"kafka\.bootstrap"):
        Settings()


def test_images_are_those_that_the_tests_run_on() -> None:
    """The versions are pinned once, in tests/servers."""
    report(
        f"{path.name} has {variable} default to {default}, the tests use {PINNED[variable]}"
        for path in DOCKER.glob("compose*.yaml")
        for variable, _, default in _VARIABLE.findall(path.read_text())
        if variable in PINNED and default != PINNED[variable]
    )
    bases = [
        argument
        for path in DOCKER.glob("*/Dockerfile")
        for name, argument in _instructions(path)
        if name == "ARG" and argument.startswith("BASE_IMAGE=")
    ]
    assert bases == [f"BASE_IMAGE={images.BASE_IMAGE}"] * 3


def test_the_nodes_image_is_started_and_watched_as_it_should_be() -> None:
    """Not root; commands in the form that starts no shell, which would swallow signals."""
    last = _last_stage(NODE_DOCKERFILE)

    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", last["USER"]), "a number: orchestrators check it"
    assert json.loads(last["ENTRYPOINT"]) == ["/usr/bin/tini", "--", "hourhand"]
    assert json.loads(last["CMD"])
    assert last["STOPSIGNAL"] == "SIGTERM"
    assert json.loads(last["HEALTHCHECK"].partition("CMD ")[2]) == ["hourhand", "health"]
    assert "--from=build" in last["COPY"]


def test_the_nodes_image_is_built_from_what_its_ignore_file_lets_through() -> None:
    """Everything else is kept out by name, so no secret gets in unnamed."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line]
    allowed = [line.removeprefix("!") for line in lines if line.startswith("!")]

    assert "*" in lines
    assert all((ROOT / name).exists() for name in allowed), allowed
    # What the wheel is made of, as setup.cfg and pyproject.toml name it.
    assert set(BUILT_FROM) <= set(allowed)


def test_the_lock_fits_what_the_project_asks_for() -> None:
    """Every package is pinned with hashes, within the bounds of pyproject.toml."""
    text = (DOCKER / "node" / "requirements.txt").read_text()
    pinned = dict(re.findall(r"^([a-z0-9-]+)==([^ ;]+)", text, re.MULTILINE))
    entries = re.split(r"(?m)^(?=[a-z0-9-]+==)", text)[1:]
    project: Any = project_metadata()
    asked = [*project["dependencies"]]
    for extra in ("kafka", "cassandra", "http", "otel", "crypto", "claims"):
        asked += project["optional-dependencies"][extra]
    complaints = [f"{entry.split()[0]} has no hash" for entry in entries if "sha256:" not in entry]
    of_venv = (ROOT / "constraints.txt").read_text().replace("\n", " ")
    for name, version in pinned.items():
        if f" {name}=={version} " not in of_venv:
            complaints.append(f"{name} {version} is not what constraints.txt has: run make lock")
    for requirement in map(Requirement, asked):
        version = pinned.get(requirement.name)
        if version is None or version not in requirement.specifier:
            complaints.append(f"{requirement} is locked at {version}: run make lock")
    report(complaints)


@pytest.mark.parametrize("script", sorted(DOCKER.glob("*/run")), ids=lambda path: path.parent.name)
def test_the_scripts_of_the_images_are_bash(script: Path) -> None:
    """And end at the first error."""
    subprocess.run(["bash", "-n", script], check=True)
    text = script.read_text()
    assert "set -euo pipefail" in text
    assert re.search(r"^exec java", text, re.MULTILINE), "signals reach the server itself"


def test_no_secret_is_written_into_the_repository() -> None:
    """`make images` makes tokens into a file that is not committed; compose asks for them."""
    assert "docker/.env" in (ROOT / ".gitignore").read_text().splitlines()
    asked = {
        variable
        for path in DOCKER.glob("compose*.yaml")
        for variable, kind, _ in _VARIABLE.findall(path.read_text())
        if kind == "?"
    }
    assert {"ADMIN_TOKEN", "TIMERS_TOKEN"} <= asked
    assert not [name for name in os.environ if name in {"ADMIN_TOKEN", "TIMERS_TOKEN"}]
