"""Writes the pages that must agree with the code: errors, metrics and settings.

``make docs`` runs it; tests/tidy/test_docs.py fails where a page is not what it would write.
"""

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hourhand.actors.model.values import errors
from hourhand.actors.model.values.errors import (
    CallerError,
    HourhandError,
    InternalError,
    OperatorError,
)
from hourhand.scheduler.configuration.settings import CONFIG_FILE, CONFIG_VARIABLE, Settings
from tests.tidy.cli_page import cli_page
from tests.tidy.decisions_page import decisions_page
from tests.tidy.deploy_files import board_copy, board_object, rules_copy, rules_object
from tests.tidy.drawings import life_drawing, pieces_drawing, tree_drawing
from tests.tidy.http_page import http_page
from tests.tidy.metrics_page import metrics_page
from tests.tidy.rooms_drawing import rooms_drawing
from tests.tidy.settings_dicts import settings_dicts
from tests.tidy.source import ROOT, class_named

_BRANCHES: dict[type[HourhandError], str] = {
    CallerError: "The caller asked for something that cannot be done",
    OperatorError: "Something is wrong with the installation",
    InternalError: "A bug, or state only a rebuild can mend",
}

_PREFIX = "HOURHAND_"


def errors_page() -> str:
    """Return docs/errors.md: every error with its code and meaning, by whose fault it is."""
    lines = [
        "# Errors",
        "",
        "Every error that Hourhand raises on purpose is a `HourhandError` with a stable `code`,",
        "whose message says which value was wrong and what to do next:",
        "",
        "```python",
        "from hourhand.errors import CallerError, OperatorError, SeveralTasks, TaskNotFound",
        "```",
        "",
        "[FastAPI](guides/fastapi.md) has a handler with their HTTP statuses. `make docs` writes",
        "this page.",
    ]
    for branch, title in _BRANCHES.items():
        lines += ["", f"## {title}", "", f"Catch them as `{branch.__name__}`.", ""]
        lines += [
            f"- `{error.code}`, `{error.__name__}`: {_one_line(inspect.getdoc(error))}"
            for error in _declared_errors()
            if issubclass(error, branch) and error is not branch
        ]
    return "\n".join(lines) + "\n"


def _declared_errors() -> list[type[HourhandError]]:
    """Return every class of the module, in the order it is written in."""
    return [
        member
        for member in vars(errors).values()
        if inspect.isclass(member) and issubclass(member, HourhandError)
    ]


_CHANGED_OFTEN = {
    "log": "`kafka` for several nodes",
    "store": "`cassandra` for several nodes",
    "embedded.folder": "programs with different working folders share it",
    "kafka.bootstrap_servers": "your brokers",
    "cassandra.contact_points": "your Cassandra",
    "topic.partitions": "before the first `migrate`: they bound the number of nodes",
    "tree.execution.workers": "blocking code waits most of its time",
    "tree.execution.timeout_ms": "no attempt may run for ever",
    "tree.recovery.drain_deadline_ms": "attempts need longer to end at a stop",
    "observe.port": "metrics and health checks",
}
"""The settings that most installations change, with the reason or the new value."""


def settings_page() -> str:
    """Return docs/settings.md: every setting with its type, default, range and meaning."""
    lines = [
        "# Settings",
        "",
        "Ten settings that most installations change:",
        "",
        "| setting | default | change it for, or if |",
        "|---|---|---|",
        *(
            f"| `{path}` | {_default(_field(path))} | {why} |"
            for path, why in _CHANGED_OFTEN.items()
        ),
        "",
        "A value comes from code (`Settings(topic={...})`), else from the environment, else from",
        f"the file `{CONFIG_FILE}` in the working folder or the one that `config_file` in code or",
        f"`{CONFIG_VARIABLE}` in the environment names, else it is the default.",
        "`hourhand settings` shows what is in effect. A wrong name or value is refused.",
        "",
        "In the file each heading below is a table: `[tree.window]`, then `tick_ms = 200`. In the",
        "environment that is `HOURHAND_TREE__WINDOW__TICK_MS=200`; a list or a mapping is JSON. In",
        "brackets are the range or the choices. `make docs` writes this page.",
    ]
    lines += ["", "## Which log, which store", "", *_list(Settings, "", {})]
    shown: dict[str, str] = {}
    for path, group in _groups(Settings, ()):
        name = ".".join(path)
        lines += ["", f"## {name}", "", _one_line(inspect.getdoc(group)), ""]
        lines += _list(group, name, shown)
    return "\n".join(lines) + "\n"


def _field(path: str) -> FieldInfo:
    """Return the setting that a path such as ``topic.partitions`` names."""
    *groups, name = path.split(".")
    model: type[BaseModel] = Settings
    for group in groups:
        found = model.model_fields[group].annotation
        assert isinstance(found, type)
        assert issubclass(found, BaseModel)
        model = found
    return model.model_fields[name]


def _groups(
    model: type[BaseModel], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], type[BaseModel]]]:
    for name, field in model.model_fields.items():
        if _is_group(field):
            group = field.annotation
            assert isinstance(group, type)
            assert issubclass(group, BaseModel)
            if any(not _is_group(inner) for inner in group.model_fields.values()):
                yield (*path, name), group
            yield from _groups(group, (*path, name))


def _is_group(field: FieldInfo) -> bool:
    return isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)


def setting_variables() -> set[str]:
    """Return the names that the environment may have: one for each setting, one for the file."""
    every: list[tuple[tuple[str, ...], type[BaseModel]]] = [((), Settings)]
    every += _groups(Settings, ())
    return {CONFIG_VARIABLE} | {
        _PREFIX + "__".join((*path, name)).upper()
        for path, group in every
        for name, field in group.model_fields.items()
        if not _is_group(field)
    }


def _list(model: type[BaseModel], group: str, shown: dict[str, str]) -> list[str]:
    """Return a line for each setting, and one for those that another group shows already."""
    meanings = _attribute_docstrings(model)
    lines = []
    known: dict[str, list[str]] = {}
    for name, field in model.model_fields.items():
        if _is_group(field):
            continue
        line = f"- `{name}`, {_default(field)}{_allowed(field)}: {meanings[name]}"
        if shown.setdefault(line, group) == group:
            lines.append(line)
        else:
            known.setdefault(shown[line], []).append(name)
    lines += [
        f"- {', '.join(f'`{name}`' for name in names)}: as in `{other}`"
        for other, names in known.items()
    ]
    return lines


def _attribute_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the string below each field, inherited ones too, which Python throws away."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base.__module__.partition(".")[0] == "hourhand":
            found |= _docstrings_of(base)
    return found


def _docstrings_of(model: type[BaseModel]) -> dict[str, str]:
    found: dict[str, str] = {}
    for field, below in pairwise(class_named(model.__name__).body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = _one_line(text)
            case _:
                pass
    return found


def _allowed(field: FieldInfo) -> str:
    """Return the choices or the range of a setting, or nothing where its default shows its type."""
    bounds = {
        sign: getattr(bound, name)
        for bound in field.metadata
        for name, sign in (("ge", "≥"), ("le", "≤"))
        if getattr(bound, name, None) is not None
    }
    if "≥" in bounds and "≤" in bounds:
        return f" ({bounds['≥']}..{bounds['≤']})"
    if bounds:
        return " (" + ", ".join(f"{sign} `{bound}`" for sign, bound in bounds.items()) + ")"
    choices = get_args(field.annotation)
    if choices and all(isinstance(choice, str) for choice in choices):
        return f" ({', '.join(f'`{choice}`' for choice in choices)})"
    return ""


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "none"
    return f"`{list(value) if isinstance(value, tuple) else value}`"


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split()).replace("``", "`").replace("|", "\\|")


PAGES = {
    "deploy/helm/hourhand/files/hourhand.json": board_copy,
    "deploy/helm/hourhand/files/rules.yml": rules_copy,
    "deploy/kubernetes/monitoring/board.yaml": board_object,
    "deploy/kubernetes/monitoring/prometheusrule.yaml": rules_object,
    "docs/adr/README.md": decisions_page,
    "docs/cli.md": cli_page,
    "docs/drawings/life.svg": life_drawing,
    "docs/drawings/pieces.svg": pieces_drawing,
    "docs/drawings/rooms.svg": rooms_drawing,
    "docs/drawings/tree.svg": tree_drawing,
    "docs/errors.md": errors_page,
    "docs/http.md": http_page,
    "docs/metrics.md": metrics_page,
    "docs/settings.md": settings_page,
    "scheduler/configuration/settings_dicts.py": settings_dicts,
}
"""Every generated page, and other files, with the function that returns its text."""


def write_pages() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (ROOT / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write_pages()
