"""Figures of work in processes, and the counting of its executions."""

from pathlib import Path

import pytest

from benchmarks.families.user_processes import hop_lines
from benchmarks.loads import Load
from benchmarks.processor_time import Drain
from benchmarks.programs import process_work
from benchmarks.records import Records

HERE = Drain(12_000.0, {"client": 40.0, "node": 60.0})


@pytest.mark.parametrize(
    ("there", "met"),
    [
        (Drain(9_000.0, {"client": 40.0, "node": 110.0}), [True, True]),
        (Drain(7_000.0, {"client": 40.0, "node": 150.0}), [False, False]),
        (Drain(9_000.0), [True]),
    ],
    ids=["cheap", "dear", "unknown"],
)
def test_the_cost_of_a_process_is_judged_beside_that_of_a_thread(
    there: Drain, met: list[bool]
) -> None:
    """The node's processor time holds that of guardian and processes; not every system tells it."""
    lines = hop_lines([there], [HERE])

    assert [line.met for line in lines] == met
    assert {line.against for line in lines} == {"threads"}


def test_a_task_is_noted_in_the_file_of_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one who has the node's file open counts it."""
    for name in ("BENCHMARK_RECORDS", "BENCHMARK_SLOTS"):
        monkeypatch.setenv(name, "")
    records = Records(tmp_path / "records", 3)
    given = process_work.executors("ProcessNoOp", records.path, records.slots)
    (task,) = Load(1, 1, due_s=1.0, first=7).tasks()

    given["executor"]().execute(task)

    records.wait_for(1, timeout_s=30)
    assert [each.number for each in records] == [7]


@pytest.mark.parametrize("name", ["NoOp", "Compute", "Beside", "ProcessNoOp", "ProcessCompute"])
def test_work_is_found_by_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what runs beside others has the kind of these."""
    for variable in ("BENCHMARK_RECORDS", "BENCHMARK_SLOTS"):
        monkeypatch.setenv(variable, "")
    given = process_work.executors(name, tmp_path / "records", 3)

    assert given["executor"].__name__ == name
    assert given["executor"].run_in == ("process" if name.startswith("Process") else None)
    assert bool(given.get("executors")) is (name == "Beside")
