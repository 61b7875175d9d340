"""Knows which file imports which, directly; never follows an import further."""

from pathlib import Path

import grimp

from tests.mirror import module_of

PACKAGES = ("hourhand", "tests", "benchmarks", "examples")


class Imports:
    """The imports between the project's own files, as they are written now."""

    def __init__(self, root: Path, packages: tuple[str, ...] = PACKAGES) -> None:
        """Read every file; grimp.exceptions.SourceSyntaxError says which one is not Python."""
        self._root = root
        # Reading all of it again takes less than half a second: there is no cache to go stale.
        self._graph = grimp.build_graph(*packages, cache_dir=None)

    def importers(self, file: str) -> list[str]:
        """Return the files that import this one; none for a file that is not there any more."""
        module = module_of(file)
        if module not in self._graph.modules:
            return []
        return sorted(map(self._file, self._graph.find_modules_that_directly_import(module)))

    def _file(self, module: str) -> str:
        path = self._root.joinpath(*module.split("."))
        package = path / "__init__.py"
        file = package if package.is_file() else path.with_suffix(".py")
        # A package of Hourhand is a link to a folder at the top.
        return file.resolve().relative_to(self._root.resolve()).as_posix()
