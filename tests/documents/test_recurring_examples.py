"""The recurring schedules of the pages for those who come from elsewhere run what they name."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hourhand.testing import VirtualScheduler
from tests.documents.blocks import blocks
from tests.documents.page import Page
from tests.tidy.source import ROOT

PAGES = {"celery": {"nightly"}, "apscheduler": {"poll", "nightly"}, "temporal": {"nightly"}}
"""Page to the names of its recurring schedules."""


@pytest.mark.parametrize("name", PAGES)
def test_each_recurring_schedule_of_a_page_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three days of them, on a node that is given the page's registry."""
    monkeypatch.chdir(tmp_path)
    page_name = f"docs/coming-from/{name}.md"
    ours = [block for block in blocks(ROOT / page_name) if block.info == "python"]
    with Page(tmp_path) as page:
        for block in ours:
            page.run(block, page_name)
        found = {each for each in PAGES[name] if any(f'"{each}",' in b.text for b in ours)}
        assert found == PAGES[name], "the page has its schedules"

        with VirtualScheduler(
            executors=page.names["app"], now=datetime(2026, 1, 1, tzinfo=UTC)
        ) as scheduler:
            page.names["client"] = scheduler.client
            for block in ours:
                if "schedule_recurring(" in block.text:
                    exec(block.text[block.text.index("client.") :], page.names)  # noqa: S102
            ran = {each.key.ordering_id for each in scheduler.advance(timedelta(days=3))}

    assert ran >= PAGES[name]
