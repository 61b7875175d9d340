"""The manifests: valid by Kubernetes' own schemas, the same from both tools, true to a node."""

import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml

from hourhand import Settings
from hourhand.scheduler.cli.cli import app
from hourhand.scheduler.observe.metric_catalogue import CATALOGUE
from tests.deploy.manifests import (
    RENDERED,
    VARIANTS,
    Objects,
    built_by_kustomize,
    by_name,
    head_of_rendered,
    helm_text,
    kustomized,
)
from tests.documents.test_console_examples import parse

_DRAIN_S = Settings().tree.recovery.drain_deadline_ms / 1000
_VERSIONS = ("1.27", "1.31", "1.36")
_EVERYTHING = kustomized("everything")


def rendered(variant: str) -> Objects:
    """Return what Helm rendered when it was last asked to."""
    text = (RENDERED / f"{variant}.yaml").read_text(encoding="utf-8")
    return by_name(yaml.safe_load_all(text))


def program(name: str) -> str:
    """Return where a program is; the test is skipped where it is not."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed here; what it made before is compared all the same")
    return found


@cache
def custom_models() -> dict[str, Any]:
    """Return the models of what Kubernetes itself does not know, by their kinds."""
    # Each takes a second to import, and every process of a test run imports this file.
    from cloudcoil.models.keda.v1alpha1 import ScaledObject
    from cloudcoil.models.prometheus_operator.v1 import PrometheusRule, ServiceMonitor

    return {each.__name__: each for each in (ScaledObject, PrometheusRule, ServiceMonitor)}


def refused(given: Any, version: str) -> str | None:
    """Return why Kubernetes would refuse an object, down to a field that nobody knows."""
    if given["kind"] in custom_models():
        model = custom_models()[given["kind"]].model_validate(given)
        read = model.model_dump(by_alias=True, exclude_unset=True, mode="json")
        return None if read == given else f"{given['kind']} has a field that is not read"
    try:
        kubernetes_validate.validate(given, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{given['kind']}: {error.message}"
    return None


@pytest.mark.parametrize("version", _VERSIONS)
def test_kubernetes_takes_every_object(version: str) -> None:
    """The oldest version that the chart allows, and newer ones."""
    assert [refused(each, version) for each in _EVERYTHING.values()] == [None] * len(_EVERYTHING)


@pytest.mark.parametrize(("kind", "name"), sorted(_EVERYTHING))
def test_a_field_that_nobody_knows_would_be_refused(kind: str, name: str) -> None:
    """Or the test above would prove little."""
    given = {**_EVERYTHING[kind, name], "specc": {}}

    assert refused(given, _VERSIONS[-1]) is not None


@pytest.mark.parametrize("variant", VARIANTS)
def test_helm_renders_what_kustomize_builds(variant: str) -> None:
    """Object by object, field by field."""
    assert rendered(variant) == kustomized(variant)


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_was_rendered_is_of_this_chart(variant: str) -> None:
    """Without Helm its digest says so; with it, it is rendered again."""
    text = (RENDERED / f"{variant}.yaml").read_text(encoding="utf-8")
    assert text.startswith(head_of_rendered()), "the chart has changed: run make render"

    assert text == head_of_rendered() + helm_text(program("helm"), variant)


@pytest.mark.parametrize("variant", VARIANTS)
def test_kustomize_builds_what_is_read_here(variant: str, tmp_path: Path) -> None:
    """The reader of these tests knows a few fields only."""
    assert built_by_kustomize(program("kustomize"), variant, tmp_path) == kustomized(variant)


def pods() -> Iterator[Any]:
    """Yield what describes a pod."""
    for kind, name in (("Job", "hourhand-migrate"), ("Deployment", "hourhand")):
        yield _EVERYTHING[kind, name]["spec"]["template"]["spec"]


def settings_of(config: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Read the settings as a node does, which refuses what it does not know."""
    (text,) = config["data"].values()
    (folder / "settings.toml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("HOURHAND_CONFIG", str(folder / "settings.toml"))
    return Settings()


def test_each_container_runs_a_command_that_exists() -> None:
    """And reads the settings where they are mounted."""
    config = _EVERYTHING["ConfigMap", "hourhand"]
    for pod in pods():
        (container,) = pod["containers"]
        parse(typer.main.get_command(app), "hourhand", list(container["args"]))
        (variable,) = container["env"]
        mounted, volume = container["volumeMounts"][0], pod["volumes"][0]

        assert variable["name"] == "HOURHAND_CONFIG"
        assert [variable["value"]] == [f"{mounted['mountPath']}/{name}" for name in config["data"]]
        assert volume == {
            "name": mounted["name"],
            "configMap": {"name": config["metadata"]["name"]},
        }


def test_the_probes_ask_what_a_node_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the port that the settings name, which policy and service name too."""
    settings = settings_of(_EVERYTHING["ConfigMap", "hourhand"], tmp_path, monkeypatch)
    (container,) = _EVERYTHING["Deployment", "hourhand"]["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    (rule,) = _EVERYTHING["NetworkPolicy", "hourhand"]["spec"]["ingress"]
    (served,) = _EVERYTHING["Service", "hourhand"]["spec"]["ports"]
    (scraped,) = _EVERYTHING["ServiceMonitor", "hourhand"]["spec"]["endpoints"]
    asked = [
        container[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")
    ]

    assert settings.observe.host == "0.0.0.0"  # noqa: S104 - a probe comes from another machine
    assert {settings.observe.port} == {
        port["containerPort"],
        served["port"],
        *(each["port"] for each in rule["ports"]),
    }
    assert served["targetPort"] == port["name"]
    assert scraped["port"] == served["name"]
    assert asked == [
        {"path": path, "port": port["name"]} for path in ("/livez", "/livez", "/readyz")
    ]


def test_selectors_find_the_nodes_and_these_have_time_to_drain() -> None:
    """Whoever selects nodes selects by labels that their pods have."""
    deployment = _EVERYTHING["Deployment", "hourhand"]["spec"]
    labels = deployment["template"]["metadata"]["labels"].items()
    selectors = [
        deployment["selector"]["matchLabels"],
        _EVERYTHING["PodDisruptionBudget", "hourhand"]["spec"]["selector"]["matchLabels"],
        _EVERYTHING["NetworkPolicy", "hourhand"]["spec"]["podSelector"]["matchLabels"],
        _EVERYTHING["Service", "hourhand"]["spec"]["selector"],
    ]

    assert all(selector.items() <= labels for selector in selectors)
    assert (
        _EVERYTHING["ServiceMonitor", "hourhand"]["spec"]["selector"]["matchLabels"].items()
        <= _EVERYTHING["Service", "hourhand"]["metadata"]["labels"].items()
    )
    assert deployment["template"]["spec"]["terminationGracePeriodSeconds"] > 2 * _DRAIN_S


def test_keda_scales_by_what_a_node_counts() -> None:
    """With the group and topic of the settings, and figures that a node can carry."""
    settings = Settings()
    spec = _EVERYTHING["ScaledObject", "hourhand"]["spec"]
    lag, running, overdue = (each["metadata"] for each in spec["triggers"])
    named = set(re.findall(r"hourhand_(\w+?)_(?:sum|count|bucket)\b", str(spec)))

    assert (lag["consumerGroup"], lag["topic"]) == (settings.group.id, settings.topic.name)
    assert named == {"attempt_seconds", "attempt_delay_seconds"}
    assert named <= CATALOGUE.keys()
    assert 1 in CATALOGUE["attempt_delay_seconds"].buckets
    assert 'le="1.0"' in overdue["query"]
    assert int(running["threshold"]) < settings.tree.execution.workers
    assert spec["maxReplicaCount"] <= settings.topic.partitions
    assert "replicas" not in _EVERYTHING["Deployment", "hourhand"]["spec"]
    assert kustomized("base")["Deployment", "hourhand"]["spec"]["replicas"] == 3
