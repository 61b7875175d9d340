"""The notebook of ``examples/`` runs from its first cell to its last, the page's example too."""

import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hourhand import Scheduler, Settings
from hourhand.scheduler import wiring
from tests.builders import Idle
from tests.documents.blocks import blocks
from tests.documents.page import Page
from tests.pipeline.installation import settings_of
from tests.tidy.source import ROOT

pytestmark = pytest.mark.integration

NOTEBOOK = Path(__file__).parents[2] / "examples" / "pipeline_notebook.py"


def test_the_notebook_shows_the_tasks_it_wrote(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside a node, which stores them."""
    assert spark.version
    settings = settings_of(tmp_path / "data")
    with Scheduler(settings, executor=Idle):
        runpy.run_path(str(NOTEBOOK), {"FOLDER": str(settings.embedded.folder)})

    said = capsys.readouterr().out
    assert "|count|" in said
    assert "|error_class|count|" in said


def test_the_example_of_the_page_runs(spark: SparkSession, tmp_path: Path) -> None:
    """What it selects can be counted: nothing has failed in a fresh folder."""
    assert spark.version
    data, config = tmp_path / "data", tmp_path / "hourhand.toml"
    config.write_text(f'[embedded]\nfolder = "{data}"\n', encoding="utf-8")
    wiring.open_stores(Settings(embedded={"folder": data})).close()
    found = blocks(ROOT / "docs/pipeline.md")
    [block] = [block for block in found if block.info == "python"]
    # This session began in another folder, so the reader's relative path would lead there.
    text = block.text.replace('"hourhand.toml"', f'"{config}"')

    with Page(tmp_path) as page:
        page.run(block._replace(text=text), "docs/pipeline.md")

    assert page.names["failed"].count() == 0
