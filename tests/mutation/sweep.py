"""Runs mutmut over one file of the folder it stands in, and tells what lived.

Decides what is mutated: all that mutmut knows, except for the wording of messages; and statements
left out, conditions that always or never hold, and results that are not returned.  It is run as
a program, so that no other module of the working copy is imported.
"""

import io
import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from pathlib import Path

import libcst as cst
from mutmut.__main__ import cli, collect_source_file_mutation_data
from mutmut.mutation import mutators
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.format_utils import get_mutant_name


def _decide(node: cst.If) -> Iterator[cst.If]:
    """The condition never holds, or always."""
    whole = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    for operator, name in ((cst.And(), "False"), (cst.Or(), "True")):
        yield node.with_changes(
            test=cst.BooleanOperation(left=whole, operator=operator, right=cst.Name(name))
        )


def _leave_out(node: cst.SimpleStatementLine) -> Iterator[cst.SimpleStatementLine]:
    """A call that is made for its effect is not made."""
    statement = node.body[0]
    if isinstance(statement, cst.Expr) and isinstance(statement.value, (cst.Call, cst.Await)):
        yield node.with_changes(body=[cst.Pass()])


def _return_nothing(node: cst.Return) -> Iterator[cst.Return]:
    """The result is not returned; None and False mean the same to those who ask "whether"."""
    if node.value is not None and cst.Module([]).code_for_node(node.value) not in {"None", "False"}:
        yield node.with_changes(value=cst.Name("None"))


def _change_word(node: cst.BaseString) -> Iterable[cst.BaseString]:
    """Only strings that mean something to a program: messages are for people."""
    text = cst.Module([]).code_for_node(node)
    return [] if " " in text else list(mutators.operator_string(node))


def _prepare() -> None:
    operators = mutators.mutation_operators
    operators[:] = [each for each in operators if each[1] is not mutators.operator_string]
    operators += [
        (cst.BaseString, _change_word),
        (cst.If, _decide),
        (cst.SimpleStatementLine, _leave_out),
        (cst.Return, _return_nothing),
    ]


def main() -> int:
    """Sweep, and return 1 where a mutant lives."""
    file, sample, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    _prepare()
    made = mutate_file_contents(str(file), file.read_text(encoding="utf-8"))
    names = [get_mutant_name(file, name) for name in made.mutant_names]
    chosen = random.Random(seed).sample(names, sample) if 0 < sample < len(names) else names
    told = io.StringIO()
    with redirect_stdout(told):
        try:
            cli(["run", "--max-children", "1", *chosen], standalone_mode=False)
        except SystemExit:
            sys.stderr.write(told.getvalue())
            raise
    found: dict[str, list[str]] = {}
    for data in collect_source_file_mutation_data(mutant_names=())[1].values():
        for name, code in data.exit_code_by_key.items():
            if name in chosen:
                found.setdefault(status_by_exit_code[code], []).append(name)
    counts = ", ".join(f"{len(each)} {status}" for status, each in sorted(found.items()))
    sys.stdout.write(f"{file}: {len(chosen)} of {len(names)} mutants (seed {seed}): {counts}\n")
    lived = [name for status, each in found.items() if status != "killed" for name in each]
    for name in lived:
        sys.stdout.write(f"\n# {name}\n{get_diff_for_mutant(name, path=file)}\n")
    return min(1, len(lived))


if __name__ == "__main__":
    sys.exit(main())
