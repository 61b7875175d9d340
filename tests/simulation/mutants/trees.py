"""Copies of the source tree: one as it is, and one for each mutant.

It copies and removes; what is changed in a copy is the mutant's matter.  All copies are made
of one snapshot, so an edit during a long hunt changes nothing.
"""

import os
import shutil
from collections.abc import Iterator
from compileall import compile_dir
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.simulation.mutants.mutant import Mutant

ROOT = Path(__file__).parents[3]
_PARTS = ("actors", "hourhand", "scheduler", "schema", "tests")
_SETTINGS = "pyproject.toml"
"""How tests are run."""


class Trees:
    """The snapshot, and a place for copies of it."""

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self._folder = folder
        self.original = folder / "original"
        for part in _PARTS:
            shutil.copytree(root / part, self.original / part, symlinks=True)
            # Once for all copies: a compiled file is valid as long as its source's time is kept.
            compile_dir(self.original / part, quiet=2)
        shutil.copy2(root / _SETTINGS, self.original / _SETTINGS)

    def scenarios(self) -> list[str]:
        """Return the names of the snapshot's scenarios, in order."""
        folder = self.original / "tests" / "simulation" / "scenarios"
        return sorted(path.stem for path in folder.glob("*.toml"))

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[Path]:
        """Provide a tree with this one fault; MutantNotApplied where it does not fit."""
        with TemporaryDirectory(dir=self._folder) as name:
            tree = Path(name) / "tree"
            # Links: thousands of files are as they are, and the mutant replaces the few it changes.
            shutil.copytree(self.original, tree, symlinks=True, copy_function=os.link)
            mutant.apply(tree)
            yield tree
