"""No installed dependency has a known vulnerability, as far as this machine can find out.

The data comes from the network.  Where it does not, the test is skipped and says why, and a
package known to be vulnerable tells whether it did: some package indexes answer without it,
which an audit alone would take for good news.
"""

import json
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest

ALLOWED_FILE = Path(__file__).with_name("allowed_vulnerabilities.toml")
CANARY = "jinja2==2.10"
"""Vulnerable since 2019, and nothing is ever going to change that."""
SERVICES = ("pypi", "osv")
_REQUEST_TIMEOUT_S = 10
_AUDIT_TIMEOUT_S = 300


@dataclass(frozen=True)
class Finding:
    """One vulnerability of one installed package."""

    package: str
    version: str
    id: str
    fixed_in: tuple[str, ...]

    def __str__(self) -> str:
        """Say what to do about it."""
        fixed = f"fixed in {', '.join(self.fixed_in)}" if self.fixed_in else "no fix yet"
        return f"{self.package} {self.version}: {self.id}, {fixed}"


def audited(service: str, *arguments: str) -> tuple[list[Finding], list[str]] | str:
    """Run pip-audit; return what it found and what it could not judge, or why it could not run."""
    try:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pip_audit",
                "--format",
                "json",
                "--progress-spinner",
                "off",
                "--timeout",
                str(_REQUEST_TIMEOUT_S),
                "--vulnerability-service",
                service,
                *arguments,
            ],
            capture_output=True,
            text=True,
            timeout=_AUDIT_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{service}: no answer within {_AUDIT_TIMEOUT_S} s"
    try:
        report = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.strip().splitlines()
        return f"{service}: {said[-1][:200] if said else 'it said nothing'}"
    return judged(report)


def judged(report: dict[str, Any]) -> tuple[list[Finding], list[str]]:
    """Return the findings of a report, and the packages it has no data about."""
    findings = [
        Finding(each["name"], each["version"], flaw["id"], tuple(flaw["fix_versions"]))
        for each in report["dependencies"]
        for flaw in each.get("vulns", ())
    ]
    return findings, [each["name"] for each in report["dependencies"] if "skip_reason" in each]


def complaints(findings: list[Finding], allowed: list[dict[str, Any]]) -> list[str]:
    """Return what somebody has to act on: findings nobody allowed, permissions of no use."""
    permitted = {(each["package"], each["id"]) for each in allowed}
    found = {(each.package, each.id) for each in findings}
    return [
        *(str(each) for each in findings if (each.package, each.id) not in permitted),
        *(f"{id_} of {name} is allowed, and gone" for name, id_ in sorted(permitted - found)),
    ]


def test_no_dependency_has_a_known_vulnerability(tmp_path: Path) -> None:
    """One that is found fails, with the version that mends it."""
    canary = tmp_path / "canary.txt"
    canary.write_text(f"{CANARY}\n")
    reasons = []
    for service in SERVICES:
        tried = audited(service, "--requirement", str(canary), "--no-deps", "--disable-pip")
        if isinstance(tried, str):
            reasons.append(tried)
        elif not tried[0]:
            reasons.append(f"{service}: it does not know that {CANARY} is vulnerable")
        else:
            break
    else:
        pytest.skip(f"no vulnerability data can be reached here: {'; '.join(reasons)}")
    outcome = audited(service, "--skip-editable")
    if isinstance(outcome, str):
        pytest.skip(f"the vulnerability data went away: {outcome}")
    findings, unknown = outcome

    assert not complaints(findings, tomllib.loads(ALLOWED_FILE.read_text()).get("allowed", []))
    if unknown := [name for name in unknown if name != "hourhand"]:
        pytest.skip(f"audited, except for {', '.join(unknown)}: {service} has no data about them")


def test_what_is_allowed_says_why_and_since_when() -> None:
    """A permission without a reason is a hole."""
    for each in tomllib.loads(ALLOWED_FILE.read_text()).get("allowed", []):
        assert each.keys() == {"id", "package", "since", "reason"}
        assert isinstance(each["since"], date)
        assert len(each["reason"]) > 20


def test_a_finding_names_package_and_fix_unless_it_is_allowed() -> None:
    """As pip-audit writes its report."""
    flaw = {"id": "PYSEC-2019-217", "fix_versions": ["2.10.1"], "aliases": [], "description": ""}
    findings, unknown = judged(
        {
            "dependencies": [
                {"name": "jinja2", "version": "2.10", "vulns": [flaw]},
                {"name": "sound", "version": "1", "vulns": []},
                {"name": "private", "skip_reason": "not found"},
            ]
        }
    )
    allowed = {"package": "jinja2", "id": "PYSEC-2019-217"}

    assert unknown == ["private"]
    assert complaints(findings, []) == ["jinja2 2.10: PYSEC-2019-217, fixed in 2.10.1"]
    assert complaints(findings, [allowed]) == []
    assert complaints([], [allowed]) == ["PYSEC-2019-217 of jinja2 is allowed, and gone"]
