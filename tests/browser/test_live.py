"""Live: figures change while one looks, a node dies, the API goes away, and the page says so."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from rich.console import Console

from examples.demo_dashboard.executor import SPEC
from examples.demo_dashboard.load import BROKEN
from examples.demo_dashboard.pictures import Seen, open_page
from examples.demo_stage.installation import node_variables, open_installation
from examples.demo_stage.stage import Stage
from examples.demo_stage.topic import write_raw
from hourhand import Settings
from hourhand.scheduler.cli.http_running import AdminRunning
from tests.browser.looking import WAIT_MS, Looking
from tests.browser.test_actions import an_id

pytestmark = pytest.mark.browser
REFUSED = "net::ERR_CONNECTION_REFUSED"


def test_a_key_that_blocks_appears_while_one_looks(looking: Looking) -> None:
    """In the list and beside the navigation, without a reload."""
    looking.open("blocked")
    name = an_id("live")
    looking.block(name)

    looking.row(name).wait_for()
    tally = looking.page.locator(".places [data-path=blocked] .tally")
    looking.until(lambda: tally.inner_text() != "")


def test_a_task_is_seen_to_end(looking: Looking) -> None:
    """Its page follows it from pending to done."""
    key = looking.schedule(an_id("ends"), in_s=3)
    looking.open("task", key=str(key))
    looking.page.locator(".task-head .pill", has_text="pending").wait_for()

    looking.page.locator(".task-head .pill", has_text="done").wait_for()


def test_an_api_that_goes_away_is_told_of_and_comes_back(browser: Browser, tmp_path: Path) -> None:
    """With the age of what is seen; nothing has to be reloaded afterwards."""
    settings = Settings(embedded={"folder": tmp_path / "data"}, admin={"port": 0})
    seen = Seen([], set())
    first = AdminRunning(settings)
    first.start()
    with open_page(browser, first.address, "light", seen) as page:
        page.set_default_timeout(WAIT_MS)
        first.stop()
        notice = page.locator(".notice", has_text="The admin API does not answer")
        notice.wait_for()
        assert " old" in page.locator(".pulse").inner_text()
        admin = settings.admin.model_copy(update={"port": first.port})
        again = settings.model_copy(update={"admin": admin})
        with AdminRunning(again):
            page.locator(".pulse[data-state=live]").wait_for()
            notice.wait_for(state="detached")

    # A browser logs each address that did not answer, whatever the page makes of it.
    assert [each for each in seen.errors if REFUSED not in each] == []


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """An installation on real Kafka and Cassandra."""
    folder = tmp_path_factory.mktemp("servers")
    with open_installation(folder, "cooperative-sticky", lambda _text: None) as settings:
        yield settings


@pytest.fixture(scope="module")
def stage(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Two nodes of it in processes of their own."""
    folder = tmp_path_factory.mktemp("stage")
    stage = Stage(Console(quiet=True), folder, node_variables(settings))
    try:
        stage.start(2, ["run", "--executor", SPEC])
        yield stage
    finally:
        stage.stop_all()


@pytest.mark.integration
@pytest.mark.usefixtures("stage")
def test_a_dead_letter_is_read_and_replayed(browser: Browser, settings: Settings) -> None:
    """Why it was put aside, what is in it, and what came of another try."""
    write_raw(settings, [(0, "k", text) for text in BROKEN])
    seen = Seen([], set())
    with AdminRunning(on_any_port(settings)) as running:
        letters = running.service.dead_letters
        with open_page(browser, running.address, "light", seen) as page:
            looking = Looking(page, running, None)
            looking.until(lambda: len(letters.page(None, 10).letters) == len(BROKEN))
            looking.open("dead-letters")
            row = looking.row("unreadable")
            row.nth(len(BROKEN) - 1).wait_for()
            row.first.locator("td").nth(2).click()
            page.locator("dialog[open] pre.code").wait_for()
            page.keyboard.press("Escape")
            looking.press("Replay", row.first)
            assert "1: not sent: the record cannot be read" in looking.confirm(1)
            page.locator("thead input").check()
            looking.press("Replay", page.locator(".bulk"))
            assert f"unreadable: {len(BROKEN)}" in looking.confirm(len(BROKEN))

    assert seen.errors == []


def on_any_port(settings: Settings) -> Settings:
    """Return settings whose admin API takes any free port."""
    admin = settings.admin.model_copy(update={"port": 0})
    return settings.model_copy(update={"admin": admin})


@pytest.mark.integration
def test_a_node_dies_while_one_looks(browser: Browser, stage: Stage, settings: Settings) -> None:
    """It is silent and its partitions are unknown, never zero; then the other one has them all."""
    seen = Seen([], set())
    with (
        AdminRunning(on_any_port(settings)) as running,
        open_page(browser, running.address, "light", seen) as page,
    ):
        page.set_default_timeout(2 * WAIT_MS)
        page.goto(f"{running.address}/#/nodes")
        page.locator(".node-card .pill", has_text="alive").nth(1).wait_for()
        page.locator(".table-foot", has_text="all owned").wait_for()
        stage.kill(stage.nodes[0])

        page.locator(".node-card[data-state=silent] .pill", has_text="silent").wait_for()
        page.locator(".notice", has_text="No node reports on").wait_for()
        lag = page.locator("tbody tr", has_text="unknown").first.locator("td").nth(4)
        assert lag.inner_text() == "unknown"
        page.locator(".table-foot", has_text="all owned").wait_for()
        page.locator(".notice", has_text="No node reports on").wait_for(state="detached")

        page.goto(f"{running.address}/#/now")
        page.locator(".legend", has_text="owners changed").first.wait_for()

    assert seen.errors == []
