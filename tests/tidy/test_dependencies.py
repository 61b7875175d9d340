"""What Hourhand requires: bounds and a reason for each package, a lock that holds them all."""

import importlib.metadata
import re
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hourhand.scheduler.configuration.optional_dependencies import EXTRA_OF
from tests.tidy.source import ROOT, dependency_group, project_metadata, report, sources

GATHERED = {"all", "pipeline"}
"""Extras that only name others."""
TOOLS = "tools"
"""The dependency group of what works on Hourhand itself."""
BROUGHT_ALONG = {
    "httpx2": "mcp",
    "mcp_types": "mcp",
    "py4j": "pyspark",
    "pydantic_core": "pydantic",
    "starlette": "fastapi",
    "yarl": "aiohttp",
}
"""Imported, though another package brings it."""
OURS = {"hourhand"}
_ROW = re.compile(r"^\| ([\w-]+) \| ([<>=.,\d]+) \| (\w*) \| (.+) \|$", re.MULTILINE)


def _declared() -> dict[tuple[str, str], Requirement]:
    """Return every requirement on another project, by extra or group and name."""
    core, extras = (project_metadata()[key] for key in ("dependencies", "optional-dependencies"))
    assert isinstance(core, list)
    assert isinstance(extras, dict)
    found: dict[tuple[str, str], Requirement] = {}
    groups = {TOOLS: dependency_group(TOOLS)}
    for extra, texts in {"core": core, **extras, **groups}.items():
        for requirement in map(Requirement, texts):
            if requirement.name != "hourhand":
                found[extra, requirement.name] = requirement
    return found


def test_every_dependency_has_a_reason_on_its_page() -> None:
    """The page's bounds are pyproject's, and nothing is listed that is not required."""
    page = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
    listed = {
        (extra, name): frozenset(bounds.split(","))
        for name, bounds, extra, reason in _ROW.findall(page)
        if len(reason) > 10
    }
    required = {
        place: frozenset(str(requirement.specifier).split(","))
        for place, requirement in _declared().items()
    }

    assert listed == required


def test_the_extras_that_gather_others_gather_all_of_them() -> None:
    """The group ``dev`` needs everything but Spark and what goes with it, which is big."""
    extras = project_metadata()["optional-dependencies"]
    assert isinstance(extras, dict)
    gathered = {name: Requirement(extras[name][0]).extras for name in GATHERED}
    whole = extras.keys() - GATHERED

    assert gathered == {"all": whole, "pipeline": {"spark"}}
    (working,) = map(Requirement, dependency_group("dev"))
    assert working.extras == whole - {"delta", "spark"}


def test_the_lock_holds_what_is_required() -> None:
    """``make lock`` writes it again."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    locked: dict[str, set[str]] = {}
    for line in lines:
        if line[:1] not in {"#", " ", ""}:
            name, version = line.partition(";")[0].strip().split("==")
            locked.setdefault(canonicalize_name(name), set()).add(version)
    report(
        f"{requirement}: the lock has {locked.get(canonicalize_name(name), 'nothing')}; make lock"
        for (_, name), requirement in _declared().items()
        if not (versions := locked.get(canonicalize_name(name)))
        or not all(requirement.specifier.contains(version) for version in versions)
    )


def test_the_lock_is_what_is_installed_here() -> None:
    """Else the tests would judge other versions than the ones that were chosen."""
    locked = set(
        re.findall(
            r"^([\w.-]+==\S+)",
            (ROOT / "constraints.txt").read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    )
    by_name = {canonicalize_name(each.partition("==")[0]) for each in locked}
    report(
        f"{name} {version} is installed, the lock has another: make venv"
        for (_, name) in _declared()
        if (version := _installed(name)) is not None
        and canonicalize_name(name) in by_name
        and f"{canonicalize_name(name)}=={version}" not in locked
    )


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


@pytest.mark.parametrize("module", EXTRA_OF)
def test_a_missing_package_is_explained_by_the_extra_that_brings_it(module: str) -> None:
    """The table that messages are made from agrees with pyproject.toml."""
    names = {
        canonicalize_name(name)
        for name in importlib.metadata.packages_distributions().get(module, [])
    }
    if not names:
        pytest.skip(f"{module} is not installed here")
    names.add(canonicalize_name(BROUGHT_ALONG.get(module, module)))
    brought_by = {extra for extra, name in _declared() if canonicalize_name(name) in names}

    assert EXTRA_OF[module] in brought_by


def test_every_package_that_is_imported_is_required() -> None:
    """By the core, or by an extra that messages know of."""
    core = {name.replace("-", "_") for extra, name in _declared() if extra == "core"}
    known = sys.stdlib_module_names | core | EXTRA_OF.keys() | BROUGHT_ALONG.keys() | OURS
    report(
        f"{source.name} imports {name}"
        for source in sources("actors", "hourhand", "scheduler")
        # pytest loads the one, Django the others.
        if source.name != "hourhand/testing_plugin.py"
        and not source.name.startswith(("hourhand/django/", "hourhand/outbox/django/"))
        for name in {each.partition(".")[0] for each in source.imports}
        if name not in known
    )
