"""Writes what deploy/ repeats of docker/: alerts and board, for kustomize and for the Helm chart.

``make docs`` runs it with the generated pages.  A kustomization may not read files outside of its
folder, and a chart is packed without them.
"""

import textwrap

from tests.tidy.source import ROOT

_RULES = ROOT / "docker/prometheus/rules.yml"
_BOARD = ROOT / "docker/grafana/hourhand.json"
_LABELS = "  labels:\n    app.kubernetes.io/name: hourhand\n"


def rules_copy() -> str:
    """Return the alerts as they are."""
    return _RULES.read_text(encoding="utf-8")


def board_copy() -> str:
    """Return the board as it is."""
    return _BOARD.read_text(encoding="utf-8")


def rules_object() -> str:
    """Return the alerts as an object of the Prometheus operator."""
    return (
        "# Written by `make docs` from docker/prometheus/rules.yml.\n"
        "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\n"
        f"metadata:\n  name: hourhand\n{_LABELS}spec:\n{_indented(rules_copy(), 2)}"
    )


def board_object() -> str:
    """Return the board as a ConfigMap that Grafana's sidecar looks for."""
    return (
        "# Written by `make docs` from docker/grafana/hourhand.json.\n"
        "apiVersion: v1\nkind: ConfigMap\n"
        f"metadata:\n  name: hourhand-board\n{_LABELS}"
        '    grafana_dashboard: "1"\n'
        f"data:\n  hourhand.json: |\n{_indented(board_copy(), 4)}"
    )


def _indented(text: str, columns: int) -> str:
    return textwrap.indent(text, " " * columns)
