"""Jobs of the pipeline where Spark cannot start: whose fault it is, and what to do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed here: make venv-pipeline")

WAIT_S = 240
TOOLS = ("sh", "bash", "env", "dirname", "sed", "cat", "uname", "basename", "ps", "grep", "tail")
OLD_JAVA = """#!/bin/sh
echo "java.lang.UnsupportedClassVersionError: class file version 61.0, up to 55.0" >&2
exit 1
"""
OTHER_PYTHON = f"""#!{sys.executable}
import runpy, sys
import pyspark.worker_util
sys.argv = sys.argv[sys.argv.index("-m") + 1 :]
real = pyspark.worker_util.check_python_version
def check(stream):
    own, sys.version_info = sys.version_info, (3, 9)
    try:
        real(stream)
    finally:
        sys.version_info = own
pyspark.worker_util.check_python_version = check
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
JOB = """
from hourhand.scheduler.cli.failing import reported_errors
from hourhand.scheduler.pipeline.job import JobOptions, spark_job
from hourhand.scheduler.pipeline.options import Options
with reported_errors(debug=False), spark_job("test", JobOptions(Options(), "local[1]")) as spark:
    spark.sparkContext.parallelize([1]).map(str).collect()
"""


def _run(folder: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    known = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    root = str(Path(__file__).parents[4])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**known, "PYTHONPATH": root, **environment},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def _no_java(folder: Path) -> dict[str, str]:
    found = [Path(place) / tool for tool in TOOLS for place in ("/usr/bin", "/bin")]
    for each in found:
        if each.exists() and not (folder / each.name).exists():
            (folder / each.name).symlink_to(each)
    return {"PATH": str(folder), "JAVA_HOME": str(folder / "nowhere")}


def _old_java(folder: Path) -> dict[str, str]:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(OLD_JAVA)
    java.chmod(0o755)
    return {"JAVA_HOME": str(folder)}


def _stale_spark(folder: Path) -> dict[str, str]:
    return {"SPARK_HOME": str(folder / "spark-3")}


CASES = {
    "no Java": (_no_java, ("no Java", "nowhere", "install Java 17")),
    "old Java": (_old_java, ("needs Java 17", "bin/java")),
    "stale SPARK_HOME": (_stale_spark, ("SPARK_HOME", "spark-3", "unset or correct")),
}


@pytest.mark.parametrize("case", CASES)
def test_a_job_says_what_spark_misses_and_what_to_do(case: str, tmp_path: Path) -> None:
    """In one line, with exit code 2: neither a bug, nor an audit that found something."""
    arrange, words = CASES[case]
    tools = tmp_path / "tools"
    tools.mkdir()

    ended = _run(tmp_path, "-m", "hourhand", "pipeline", "audit", **arrange(tools))

    said = ended.stderr.splitlines()[-1]
    assert said.endswith("[spark-not-started]")
    assert all(word in said for word in words)
    assert ended.returncode == 2


def test_workers_with_another_python_are_said_with_what_to_do(tmp_path: Path) -> None:
    """The reason stands at the end of a trace, of which only the head was shown."""
    python = tmp_path / "other-python"
    python.write_text(OTHER_PYTHON)
    python.chmod(0o755)

    ended = _run(tmp_path, "-c", JOB, PYSPARK_PYTHON=str(python))

    said = [line for line in ended.stderr.splitlines() if line.startswith("hourhand: ")][-1]
    assert said.endswith("[spark-not-started]")
    assert all(word in said for word in ("3.9", "PYSPARK_PYTHON", sys.executable))
