"""Writes the groups of settings as typed dictionaries, for type checkers and editors.

A group that is written as a dictionary, ``Settings(topic={"partitions": 4})``, is then checked
as the group's class is.
"""

from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr

from hourhand.scheduler.configuration.settings import Settings

_HEAD = '''"""The groups of settings as dictionaries, as type checkers and editors read them.

Decides nothing and is never imported where programs run.  Written by ``make docs`` from the
models, with what they also take: a ``str`` for a path or a secret, a list for a tuple.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypedDict

from pydantic import SecretStr
'''


def settings_dicts() -> str:
    """Return the module: one typed dictionary for each group, what they hold before them."""
    groups = dict.fromkeys(_groups_in(Settings))
    top = {id(field.annotation) for field in Settings.model_fields.values()}
    inner = sorted(
        (group for group in groups if id(group) not in top),
        key=lambda group: (group.__module__, group.__name__),
    )
    parts = [_HEAD]
    for module in dict.fromkeys(group.__module__ for group in inner):
        names = [group.__name__ for group in inner if group.__module__ == module]
        wrapped = "".join(f"\n    {name}," for name in names)
        one_line = f"from {module} import {', '.join(names)}"
        parts.append(one_line if len(one_line) <= 100 else f"from {module} import ({wrapped}\n)")
    for group in groups:
        meaning = " ".join((group.__doc__ or "").split())
        parts += [
            "",
            "",
            f"class {group.__name__}Dict(TypedDict, total=False):",
            f'    """{meaning}"""',
            "",
            *(f"    {name}: {_written(field)}" for name, field in _fields(group)),
        ]
    return "\n".join(parts) + "\n"


def _fields(group: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    for name, field in group.model_fields.items():
        yield name, field.annotation


def _groups_in(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield every group of a model, those inside a group before it."""
    for _, annotation in _fields(model):
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from _groups_in(annotation)
            yield annotation


def _written(annotation: Any) -> str:
    """Return what a value of this type may be written as."""
    origin, of = get_origin(annotation), get_args(annotation)
    if origin in {Union, UnionType}:
        return " | ".join(_written(each) for each in of)
    if origin is Literal:
        return f"Literal[{', '.join(map(_quoted, of))}]"
    if origin is tuple:
        return f"list[{_written(of[0])}] | tuple[{_written(of[0])}, ...]"
    if origin is dict:
        return f"Mapping[{_written(of[0])}, {_written(of[1])}]"
    if annotation is NoneType:
        return "None"
    if annotation in {Path, SecretStr}:
        return f"{annotation.__name__} | str"
    if issubclass(annotation, BaseModel):
        return f"{annotation.__name__} | {annotation.__name__}Dict"
    return str(annotation.__name__)


def _quoted(choice: str) -> str:
    return f'"{choice}"'
