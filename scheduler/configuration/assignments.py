"""Settings that were written as text, by name, wherever they were typed.

Decides how such a text is read and where ``Settings`` looks for its file; never which names
there are, and never whether a value is allowed.
"""

import json
import os
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args, get_origin

from actors.model.errors import SettingsInvalid
from scheduler.configuration.settings import CONFIG_VARIABLE


@contextmanager
def config_file(path: Path | str | None) -> Iterator[None]:
    """Name the file in the environment, where ``Settings`` looks, for as long as it looks."""
    if path is None:
        yield
        return
    before = os.environ.get(CONFIG_VARIABLE)
    os.environ[CONFIG_VARIABLE] = str(path)
    try:
        yield
    finally:
        if before is None:
            del os.environ[CONFIG_VARIABLE]
        else:
            os.environ[CONFIG_VARIABLE] = before


def read_value(what: str, annotation: Any, text: str) -> Any:
    """Read a list or mapping as JSON and ``null`` as none; the rest is left to pydantic.

    ``what`` names the setting as it was typed; SettingsInvalid where its text is no JSON.
    """
    if text == "null" and types.NoneType in get_args(annotation):
        return None
    if get_origin(annotation) is tuple and not text.startswith("["):
        return [part.strip() for part in text.split(",")]
    if get_origin(annotation) in (dict, tuple):
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SettingsInvalid(f"{what}: this is no JSON: {error}") from None
    return text
