"""What may not be called anywhere in the product, and that the linter would see it.

Deserialisers that run what they read, code made from text, shells; and the linter's own
security rules (S), tried on a file that breaks them, since a rule that is switched off by
accident says nothing.
"""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.tidy.source import ROOT, Source, report, sources

UNSAFE_MODULES = {
    "cPickle": "JSON, through hourhand.actors.model.task.codec",
    "cloudpickle": "JSON, through hourhand.actors.model.task.codec",
    "dill": "JSON, through hourhand.actors.model.task.codec",
    "jsonpickle": "JSON, through hourhand.actors.model.task.codec",
    "marshal": "JSON, through hourhand.actors.model.task.codec",
    "pickle": "JSON, through hourhand.actors.model.task.codec",
    "shelve": "a store behind hourhand.actors.ports.store",
    "yaml": "TOML, through tomllib",
}
"""Each with what to use in its place.  msgspec and json make values, never code."""
UNSAFE_CALLS = {
    "__import__": "import it by name, or importlib.import_module for the executor's path",
    "compile": "write the code down",
    "eval": "write the code down, or ast.literal_eval",
    "exec": "write the code down",
    "os.popen": "subprocess with a list of arguments",
    "os.system": "subprocess with a list of arguments",
    "subprocess.getoutput": "subprocess with a list of arguments",
    "subprocess.getstatusoutput": "subprocess with a list of arguments",
}
PRODUCT = ("actors", "hourhand", "scheduler", "schema", "examples")
INSTALLED = ("actors", "hourhand", "scheduler")

PLANTED = {
    "S105": "password = 'hunter2'\n",
    "S301": "import pickle\n\npickle.loads(b'')\n",
    "S307": "eval('1')\n",
    "S506": "import yaml\n\nyaml.load('a: 1', yaml.Loader)\n",
    "S602": "import subprocess\n\nsubprocess.run('ls', shell=True)\n",
    "S608": "name = 'x'\nquery = f\"SELECT * FROM t WHERE name = '{name}'\"\n",
}
"""Rule to a line that breaks it."""


def unsafe(source: Source) -> list[str]:
    """Return what in a file could run what it reads."""
    complaints = []
    for name in source.imports:
        package = name.partition(".")[0]
        if package in UNSAFE_MODULES:
            complaints.append(f"{source.name} imports {name}: use {UNSAFE_MODULES[package]}")
    complaints += [
        f"{source.name}:{line} calls {name}: {UNSAFE_CALLS[name]}"
        for line, name in source.calls()
        if name in UNSAFE_CALLS
    ]
    complaints += [
        f"{source.name}:{node.lineno} starts a shell: pass a list of arguments"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.keyword)
        and node.arg == "shell"
        and not (isinstance(node.value, ast.Constant) and node.value.value is False)
    ]
    return complaints


def test_nothing_runs_what_it_reads() -> None:
    """A record, a row and a settings file are values, whoever wrote them."""
    report({complaint for source in sources(*PRODUCT) for complaint in unsafe(source)})


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from dill import loads",
        "import yaml as y",
        "eval('1')",
        "import os\nos.system('ls')",
        "import subprocess as s\ns.run('ls', shell=True)",
        "import subprocess\nsubprocess.run('ls', shell=wanted)",
    ],
)
def test_the_check_above_finds_what_it_looks_for(line: str, tmp_path: Path) -> None:
    """Under another name, too."""
    file = tmp_path / "planted.py"
    file.write_text(f"{line}\n")

    assert unsafe(_Planted(file))


class _Planted(Source):
    """A file outside of the project, as if it were inside."""

    @property
    def name(self) -> str:
        """Its own name."""
        return self.path.name


@pytest.mark.parametrize("rule", PLANTED)
@pytest.mark.parametrize("folder", ["actors", "hourhand", "scheduler"])
def test_the_linter_sees_a_planted_fault(rule: str, folder: str) -> None:
    """With the project's own configuration, at a path of the product."""
    found = subprocess.run(
        [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--output-format",
            "concise",
            "--stdin-filename",
            f"{folder}/planted.py",
            "-",
        ],
        input=PLANTED[rule],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )

    assert found.returncode == 1
    assert f" {rule} " in found.stdout


ALLOWED_EXEMPTIONS = {
    # A table's name cannot be bound; tests/security/test_injection.py lists what is written
    # into statements, and shows that no value of a user's is.
    ("scheduler/adapters/cassandra/**", "S608"),
    # Lists of placeholders; the same test looks at every statement of the embedded store.
    ("scheduler/adapters/embedded/**", "S608"),
    # The table's name is in the user's database: letters, digits and underscores alone.
    ("scheduler/outbox/**", "S608"),
    ("hourhand/outbox/django/migrations/**", "S608"),
    # Names of the tables that a question may read; a path is quoted, rows are bound.
    ("scheduler/cli/sql_*.py", "S608"),
    ("actors/**", "S101"),
    ("scheduler/**", "S101"),
}
"""(where, which) of the linter's security rules is off in what is installed; pyproject.toml has
the reason beside each."""
ALLOWED_MARKS = {
    ("scheduler/demo/node.py", "S603"),
    # The guardian of user code's processes: this interpreter, with a module of ours.
    ("scheduler/node/workers/process_thread.py", "S603"),
}
"""(file, rule) that a line switches off; S311 is about jitter and repeatable tests, no secrets."""


def test_every_exemption_from_a_security_rule_is_known() -> None:
    """One more is a decision somebody has to defend here."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        lint = tomllib.load(file)["tool"]["ruff"]["lint"]
    everywhere = {rule for rule in lint["ignore"] if re.fullmatch(r"S\d*", rule)}
    by_file = {
        (pattern, rule)
        for pattern, rules in lint["per-file-ignores"].items()
        for rule in rules
        if re.fullmatch(r"S\d*", rule) and pattern.startswith(INSTALLED)
    }
    marks = {
        (source.name, rule)
        for source in sources(*INSTALLED)
        for mark in re.findall(r"# noqa: ([A-Z0-9, ]+)", source.text)
        for rule in re.findall(r"\bS\d+", mark)
        if rule != "S311"
    }

    assert not everywhere
    assert by_file == ALLOWED_EXEMPTIONS
    assert marks == ALLOWED_MARKS


def test_actions_of_ci_are_pinned_by_digest() -> None:
    """A tag can be moved to other code; a commit cannot."""
    used = [
        (path.name, line.strip())
        for path in sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
        for line in path.read_text().splitlines()
        if re.match(r"\s*(- )?uses:", line)
    ]
    pinned = re.compile(r"(- )?uses: [\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*")

    assert used
    report(f"{name}: {line}" for name, line in used if not pinned.fullmatch(line))
