"""The names that type checkers and editors read of models are those of their fields."""

import ast
import inspect

import pytest

from hourhand import Settings, Task
from tests.tidy.source import class_named


@pytest.mark.parametrize(("model", "besides"), [(Task, []), (Settings, ["config_file"])])
def test_type_checkers_read_every_field(
    model: type[Task] | type[Settings], besides: list[str]
) -> None:
    """The constructor they read is written by hand, beside the fields."""
    read = next(
        node
        for node in ast.walk(class_named(model.__name__))
        if isinstance(node, ast.FunctionDef) and node.name == "__init__" and node.args.kwonlyargs
    )

    assert [each.arg for each in read.args.kwonlyargs] == [*besides, *model.model_fields]


@pytest.mark.parametrize("model", [Task, Settings])
def test_a_signature_shows_the_fields(model: type[Task] | type[Settings]) -> None:
    """What ``help`` and editors that run the program show; the checked one has them all."""
    shown = inspect.signature(model).parameters

    assert list(shown) == list(model.model_fields)
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in shown.values())
