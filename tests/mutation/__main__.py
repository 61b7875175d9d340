"""Sweeps a file with mutmut: ``python -m tests.mutation scheduler/node/node.py --sample 200``.

Decides which tests judge which file, and prepares the copy that is mutated: nothing of the
working copy is touched.  What is mutated, and what became of it, is the matter of ``sweep.py``,
which runs inside that copy.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.mirror import own_tests

ROOT = Path(__file__).parents[2]
TREES = ROOT / "build/mutation"
SWEEP = Path(__file__).parent / "sweep.py"
_CONFIGURATION = """
[tool.mutmut]
source_paths = ["hourhand"]
only_mutate = ["{file}"]
also_copy = ["schema", "examples", "benchmarks", "docs"]
pytest_add_cli_args = ["-p", "no:cacheprovider"]
pytest_add_cli_args_test_selection = [{tests}]
use_git_change_detection = false
track_dependencies = false
timeout_multiplier = 20.0
timeout_constant = 10.0
"""


def main() -> int:
    """Sweep what was asked for; return 1 where a mutant lives."""
    arguments = _parse()
    return max([_sweep(file, arguments) for file in arguments.files])


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("files", nargs="+", help="such as scheduler/node/node.py")
    parser.add_argument("--tests", nargs="*", default=[], help="more than the file's own ones")
    parser.add_argument("--sample", type=int, default=0, help="so many mutants of each; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    return parser.parse_args()


def _sweep(file: str, arguments: argparse.Namespace) -> int:
    programs = own_tests(file, folder="tests/programs")
    tests = [*own_tests(file), *programs, *arguments.tests]
    if not tests or not (ROOT / file).is_file():
        sys.stderr.write(f"{file}: no such file, or no test file bears its name: --tests\n")
        return 2
    tree = TREES / file.replace("/", ".").removesuffix(".py")
    shutil.rmtree(tree, ignore_errors=True)
    # Before the process starts: Python forgets folders of its path that are not there.
    (tree / "mutants").mkdir(parents=True)
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True
    )
    for name in listed.stdout.decode().splitlines():
        if (ROOT / name).is_file():
            copy = tree / _installed(name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy)
    quoted = ", ".join(f'"{each}"' for each in tests)
    with (tree / "pyproject.toml").open("a", encoding="utf-8") as configuration:
        configuration.write(_CONFIGURATION.format(file=_installed(file), tests=quoted))
    command = [
        sys.executable,
        str(SWEEP),
        _installed(file),
        str(arguments.sample),
        str(arguments.seed),
    ]
    environment = {**os.environ, "PYTHONPATH": str(tree / "mutants")}
    return subprocess.run(command, cwd=tree, env=environment, check=False).returncode


def _installed(name: str) -> str:
    """Return a file's place in the copy: as in a wheel, because mutmut follows no links."""
    top, _, below = name.partition("/")
    places = {"actors": "hourhand/actors", "scheduler": "hourhand/scheduler"}
    places["schema"] = "hourhand/scheduler/schema"
    return f"{places.get(top, top)}/{below}" if below else name


if __name__ == "__main__":
    sys.exit(main())
