"""A browser, an installation with a node and its dashboard, and a page that must not complain."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from examples.demo_dashboard.executor import DashboardExecutor
from examples.demo_dashboard.pictures import Seen, open_page
from hourhand import Scheduler, Settings
from hourhand.scheduler.cli.http_running import AdminRunning
from tests.browser.importing import Importing
from tests.browser.looking import Looking
from tests.servers.chromium import open_browser
from tests.servers.maven import ToolMissing


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for the session; the tests are skipped, saying why, without Chromium."""
    opened = open_browser()
    try:
        found = opened.__enter__()
    except ToolMissing as error:
        pytest.skip(f"no browser: {error}")
    try:
        yield found
    finally:
        opened.__exit__(None, None, None)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The embedded default: what stands behind the dashboard is the code of a cluster."""
    folder = tmp_path_factory.mktemp("dashboard")
    return Settings(embedded={"folder": folder / "data"}, admin={"port": 0})


@pytest.fixture(scope="module")
def node(settings: Settings) -> Iterator[Scheduler]:
    """A node that runs tasks."""
    kinds = {"importing": Importing}
    with Scheduler(settings, executor=DashboardExecutor, executors=kinds) as scheduler:
        yield scheduler


@pytest.fixture(scope="module")
def running(settings: Settings, node: Scheduler) -> Iterator[AdminRunning]:
    """The admin API and its dashboard beside the node."""
    with AdminRunning(settings) as running:
        yield running


@pytest.fixture
def page(browser: Browser, running: AdminRunning) -> Iterator[Page]:
    """A page of the dashboard that is live; it must log no error and ask no other host."""
    seen = Seen([], set())
    with open_page(browser, running.address, "light", seen) as page:
        yield page
    assert seen.errors == []
    assert seen.hosts == {running.address.split("/")[2]}


@pytest.fixture
def looking(page: Page, running: AdminRunning, node: Scheduler) -> Looking:
    """Words for what somebody does at the dashboard."""
    return Looking(page, running, node)
