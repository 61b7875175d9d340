"""A mutant: a small fault that is put into the engine's source text on purpose.

It says what is replaced, by what, which promise that breaks, and who has to notice.  The quoted
text must stand in its file exactly once: a mutant that no longer fits is an error, never a
silent pass.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

FOLDER = Path(__file__).parent


class MutantNotApplied(Exception):
    """The source text changed and the mutant did not."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Edit(_Part):
    """One replacement."""

    file: str
    """Path below the root of the repository."""
    old: str = Field(min_length=1)
    new: str

    def replaced(self, text: str) -> str:
        """Return the file's text with the fault; MutantNotApplied where it does not fit."""
        found = text.count(self.old)
        if found != 1:
            raise MutantNotApplied(
                f"the text to replace stands {found} times in {self.file}, once is needed:"
                f" bring the mutant up to date with\n{self.old}"
            )
        return text.replace(self.old, self.new)


class Mutant(_Part):
    """One fault; more than one edit where a second line would protect the promise."""

    name: str
    says: str
    """What is wrong with it, in a few words."""
    promises: tuple[str, ...] = Field(min_length=1)
    scenario: str = ""
    """Takes every other seed, where one scenario provokes the fault more than the others."""
    seed: int | None = None
    """Of the scenario; tried before all others, as it found the fault once."""
    tests: tuple[str, ...] = ()
    """Judges instead of the simulation, where that replaces what is broken: test files."""
    quick: bool = False
    """Caught within few short runs, so it is hunted in every test run too."""
    edit: tuple[Edit, ...] = Field(min_length=1)

    def texts(self, root: Path) -> Mapping[Path, str]:
        """Return the mutated text of each file it changes below ``root``."""
        found: dict[Path, str] = {}
        for edit in self.edit:
            path = root / edit.file
            if not path.is_file():
                raise MutantNotApplied(f"there is no {edit.file}: say where the code is")
            found[path] = edit.replaced(found.get(path) or path.read_text())
        return found

    def apply(self, root: Path) -> None:
        """Mutate the source tree below ``root``; nothing is changed where it does not fit."""
        for path, text in self.texts(root).items():
            # The file may be a link to that of another tree, which stays as it is.
            path.unlink()
            path.write_text(text)


def load_mutants(folder: Path = FOLDER) -> Mapping[str, Mutant]:
    """Return every mutant of the folder's files, by name, in the order of files and lines."""
    found: dict[str, Mutant] = {}
    for path in sorted(folder.glob("*.toml")):
        for value in tomllib.loads(path.read_text())["mutant"]:
            mutant = Mutant.model_validate(value)
            if mutant.name in found:
                raise MutantNotApplied(f"two mutants are called {mutant.name}: rename one")
            found[mutant.name] = mutant
    return found
