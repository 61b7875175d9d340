"""Programs that run side by side."""

import sys
from pathlib import Path

from tests.check.steps import Step, run


def _python(name: str, program: str, good_codes: tuple[int, ...] = (0,)) -> Step:
    return Step(name, (sys.executable, "-c", program), good_codes)


def test_each_step_keeps_what_it_printed_and_how_it_ended(tmp_path: Path) -> None:
    """Both streams, in the order they were written."""
    printed = "import sys; print('one', flush=True); sys.stderr.write('two\\n'); sys.exit(3)"
    steps = [_python("fails", printed), _python("passes", "pass"), _python("known", printed, (3,))]

    results = {result.step.name: result for result in run(steps, tmp_path)}

    assert results["fails"].output == "one\ntwo"
    assert {name: result.passed for name, result in results.items()} == {
        "fails": False,
        "passes": True,
        "known": True,
    }
    assert all(result.seconds > 0 for result in results.values())


def test_two_steps_run_at_once(tmp_path: Path) -> None:
    """Each waits for the other, so neither would end alone."""
    meet = (
        "import sys, time; from pathlib import Path; Path(sys.argv[1]).touch()\n"
        "while not Path(sys.argv[2]).exists(): time.sleep(0.01)"
    )
    pairs = (("a", "b"), ("b", "a"))
    steps = [Step(own, (sys.executable, "-c", meet, own, other)) for own, other in pairs]

    assert all(result.passed for result in run(steps, tmp_path))
