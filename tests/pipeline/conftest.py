"""One small Spark session for all tests of the pipeline, and embedded installations to read."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="no Spark here: make venv-pipeline")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """One local session with two workers at most, without web pages."""
    from hourhand.scheduler.pipeline.session import open_session

    session = open_session(
        "tests",
        "local[2]",
        {
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.driver.memory": "1g",
            # Tests are over before a better compiler would have paid.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.adaptive.enabled": "false",
            # Each query runs once over a few rows: compiling it would take longer than the rows.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        },
    )
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    """Options of the data source for an embedded folder of the test's own."""
    return {"embedded.folder": str(tmp_path / "data"), "topic.partitions": "4"}
