"""Compiles a library that is loaded below a program, with the compiler that this machine has."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

_COMPILERS = ("cc", "gcc", "clang")
_FLAGS = ("-shared", "-fPIC", "-O1", "-U_FORTIFY_SOURCE", "-pthread")


class CannotPreload(Exception):
    """This machine cannot load a library below a program; the text says what it lacks."""


def compile_library(source: Path, folder: Path) -> Path:
    """Compile a source into a folder and return the library; raises CannotPreload."""
    if sys.platform != "linux":
        raise CannotPreload(f"{source.name} is for Linux, and this is {sys.platform}")
    library = folder / f"{source.stem}.so"
    done = subprocess.run(
        [*_compiler(), *_FLAGS, "-o", str(library), str(source), "-ldl"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CannotPreload(f"the compiler refuses {source.name}: {done.stderr.strip()}")
    return library


def _compiler() -> list[str]:
    for name in _COMPILERS:
        if (path := shutil.which(name)) is not None:
            return [path]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise CannotPreload(
        "no C compiler is there: install gcc or clang (Debian: gcc), or one in a wheel,"
        " pip install ziglang"
    )
