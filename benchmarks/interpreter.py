"""Tells optimized builds of the interpreter from others.

Plain builds, as pyenv makes them unless told otherwise, run Python code 1.1 to 1.5 times slower.
``make venv`` runs this file with each interpreter it finds, before anything is installed: it
imports nothing but the standard library.
"""

import sys
import sysconfig

_SYSTEM = "/usr"


def is_optimized(configured_with: str, prefix: str) -> bool:
    """True if a build with these arguments of ``configure``, at this prefix, is optimized.

    Distributions optimize theirs.  Debian's arguments do not say so: they are those of its shared
    library, and the program is another build.
    """
    return "--enable-optimizations" in configured_with or prefix == _SYSTEM


def runs_optimized() -> bool:
    """True if this interpreter is optimized."""
    return is_optimized(sysconfig.get_config_var("CONFIG_ARGS") or "", sys.base_prefix)


if __name__ == "__main__":
    sys.exit(not runs_optimized())
