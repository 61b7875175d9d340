"""Growth in a soak, and a short one that runs."""

import subprocess
import sys
from dataclasses import replace

import pytest

from tests.soak.samples import Sample, growth, head, kept_bytes_a_task, line

_MIB = 1024**2


def look(number: int) -> Sample:
    """Return the ``number``-th look of a soak in which nothing grows but the files."""
    return Sample(
        hours=number / 12,
        accepted=number * 1_000 + 500,
        ended=number * 1_000,
        late_p50_ms=1.0,
        late_p99_ms=9.0,
        late_max_ms=20.0,
        resident_bytes=(60 + 20 * (number > 2)) * _MIB,
        disk_bytes={"log.db": 10_000 + number * 1_000, "store.db": 5_000 + number * 2_000},
    )


FLAT = [look(number) for number in range(12)]


def test_what_fills_in_the_first_quarter_is_no_growth() -> None:
    """Memory is bounded, and begins empty."""
    assert growth(FLAT) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"resident_bytes": 95 * _MIB}, "memory"),
        ({"late_p50_ms": 2.5}, "lateness"),
        ({"ended": 9_000}, "wait"),
    ],
)
def test_what_grows_behind_it_is_told(change: dict[str, float], word: str) -> None:
    """Each alone, in the last quarter."""
    grown = [*FLAT[:9], *(replace(each, **change) for each in FLAT[9:])]  # type: ignore[arg-type]

    (told,) = growth(grown)

    assert word in told


def test_too_few_looks_say_nothing() -> None:
    """A soak of a few minutes proves nothing."""
    assert len(growth(FLAT[:3])) == 1


def test_files_are_told_by_task() -> None:
    """They grow with what is kept."""
    assert kept_bytes_a_task(FLAT) == 3.0


def test_a_look_is_a_row_below_its_columns() -> None:
    """A person reads it while it runs."""
    assert len(line(FLAT[5])) == len(head(FLAT[5]))
    assert "log.db MiB" in head(FLAT[5])


@pytest.mark.slow
def test_a_short_soak_runs() -> None:
    """On the embedded default, with looks by the second."""
    command = [sys.executable, "-m", "tests.soak", "--hours", "0.002", "--every-s", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert "memory MiB" in done.stdout, done.stderr
    assert "bytes more for each task" in done.stdout
