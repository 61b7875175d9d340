"""The objects that kustomize and Helm make of deploy/, with the programs or without them.

Reads the few fields of a kustomization that are used there: resources, components, and patches
that remove something.  What Helm renders is kept in deploy/helm/rendered/, with a digest of the
chart it was rendered from, so that a machine without Helm sees when it is stale::

    python -m tests.deploy.manifests     # renders it again; needs helm
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.tidy.source import ROOT

KUBERNETES = ROOT / "deploy/kubernetes"
CHART = ROOT / "deploy/helm/hourhand"
RENDERED = ROOT / "deploy/helm/rendered"
VARIANTS: dict[str, tuple[str, ...]] = {"base": (), "everything": ("monitoring", "keda")}
"""Components of kustomize, which are switches of the chart as well."""

Objects = dict[tuple[str, str], Any]
"""By kind and name."""


def by_name(documents: Iterable[Any]) -> Objects:
    """Return objects by kind and name; AssertionError where two have the same."""
    listed = [each for each in documents if each]
    found = {(each["kind"], each["metadata"]["name"]): each for each in listed}
    assert len(found) == len(listed), "two objects have one name"
    return found


def kustomized(variant: str) -> Objects:
    """Return what ``kustomize build`` makes of the base with a variant's components."""
    folders = [KUBERNETES / "base", *(KUBERNETES / name for name in VARIANTS[variant])]
    plans = [
        (folder, yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8")))
        for folder in folders
    ]
    objects = by_name(
        each
        for folder, plan in plans
        for name in plan["resources"]
        for each in yaml.safe_load_all((folder / name).read_text(encoding="utf-8"))
    )
    for _, plan in plans:
        unknown = plan.keys() - {"apiVersion", "kind", "resources", "patches"}
        assert not unknown, f"{unknown} is read by kustomize, and not here"
        for patch in plan.get("patches", ()):
            target = patch["target"]
            _remove(objects[target["kind"], target["name"]], yaml.safe_load(patch["patch"]))
    return objects


def _remove(target: Any, operations: list[dict[str, str]]) -> None:
    for operation in operations:
        assert operation["op"] == "remove", "no other patch is read here"
        *way, last = operation["path"].strip("/").split("/")
        place = target
        for name in way:
            place = place[name]
        del place[last]


def built_by_kustomize(program: str, variant: str, folder: Path) -> Objects:
    """Return what the program itself makes of it; ``folder`` is for the overlay."""
    components = [f"components/{name}" for name in VARIANTS[variant]]
    for name in ("base", *VARIANTS[variant]):
        kept = folder / ("base" if name == "base" else f"components/{name}")
        shutil.copytree(KUBERNETES / name, kept)
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["base"],
        "components": components,
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")
    done = subprocess.run(
        [program, "build", folder], check=True, capture_output=True, encoding="utf-8"
    )
    return by_name(yaml.safe_load_all(done.stdout))


def helm_text(program: str, variant: str) -> str:
    """Return what Helm renders of the chart, with the switches of a variant."""
    switches = [part for name in VARIANTS[variant] for part in ("--set", f"{name}.enabled=true")]
    done = subprocess.run(
        [program, "template", "hourhand", CHART, "--kube-version", "1.31.0", *switches],
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    return done.stdout


def chart_digest() -> str:
    """Return one number for all that the chart consists of."""
    digest = hashlib.sha256()
    for path in sorted(_files(CHART)):
        digest.update(f"{path.relative_to(CHART)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def head_of_rendered() -> str:
    """Return the first line of a rendered file that is fresh."""
    return f"# Written by `make render` from the chart with sha256 {chart_digest()}.\n"


def main() -> int:
    """Render every variant again."""
    program = shutil.which("helm")
    if program is None:
        sys.stderr.write("helm is not installed: see docs/operations/kubernetes.md\n")
        return 2
    RENDERED.mkdir(exist_ok=True)
    for variant in VARIANTS:
        text = head_of_rendered() + helm_text(program, variant)
        (RENDERED / f"{variant}.yaml").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
