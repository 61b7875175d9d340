"""Detects a user's own ``scheduler`` or ``actors`` that Python finds before Hourhand's packages.

Decides the message about a ``scheduler.py`` or an ``actors`` folder of a user's; it never runs the
code in it.
"""

import importlib.util
import sys
from pathlib import Path

_PACKAGES = ("scheduler", "actors")


def require_own_packages() -> None:
    """Raise ImportError if ``scheduler`` or ``actors`` is not Hourhand's; it names the file."""
    installed = Path(__file__).resolve().parents[1]
    for name in _PACKAGES:
        places = _places(name)
        if not places or installed / name in (Path(place).resolve() for place in places):
            continue
        raise ImportError(
            f"{places[0]} hides the package {name!r} of Hourhand, because its folder comes first"
            f" on sys.path: rename it, or move it into a package of your own (Hourhand needs the"
            f" import names {' and '.join(map(repr, _PACKAGES))})",
            name=name,
            path=places[0],
        )


def _places(name: str) -> list[str]:
    """Return the folders of the package that Python finds, or the file of a plain module."""
    module = sys.modules.get(name)
    spec = importlib.util.find_spec(name) if module is None else module.__spec__
    if spec is None:
        file = getattr(module, "__file__", None)
        return [file] if file else []
    if spec.submodule_search_locations is not None:
        return list(spec.submodule_search_locations)
    return [spec.origin] if spec.origin else []
