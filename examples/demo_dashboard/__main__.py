"""``python -m examples.demo_dashboard``: a cluster to look at, pictures of it, and what was seen.

0 only if every check holds; 1 where one does not, or something did not come up.
"""

import contextlib
import threading
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer
from playwright.sync_api import Browser

from examples.demo_dashboard.executor import SPEC
from examples.demo_dashboard.load import BROKEN, STUCK, Load
from examples.demo_dashboard.pictures import BYTES_MAX, Seen, open_page, show, write, write_all
from examples.demo_stage.checks import Check, count_check, number_check, show_checks
from examples.demo_stage.stage import Stage, on_servers, perform
from hourhand import Settings
from hourhand.scheduler.cli.http_running import AdminRunning
from tests.servers.chromium import open_browser

FOLDER = Path(__file__).parents[2] / "docs/images/dashboard"
_NODES = 3
_PER_S = 80.0
_COMMAND = ("run", "--executor", SPEC)
_BLOCKED_S = 60.0
_BEFORE_S, _AFTER_S = 40.0, 75.0
"""Seconds of charts before the first node dies, and after."""
_SILENT_S = 30.0


def main(
    *,
    stay: Annotated[bool, typer.Option("--stay", help="Stay up until Ctrl-C.")] = False,
    pictures: Annotated[
        bool, typer.Option(help="Needs Chromium; else there is only the address.")
    ] = True,
    folder: Annotated[Path, typer.Option(help="Where pictures are written.")] = FOLDER,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free one.")] = 7254,
) -> None:
    """Show the dashboard over real Kafka and Cassandra, with three nodes, two of which die."""

    def play(stage: Stage, settings: Settings) -> bool:
        with contextlib.ExitStack() as stack:
            browser = stack.enter_context(open_browser()) if pictures else None
            admin = settings.admin.model_copy(update={"port": port})
            settings = settings.model_copy(update={"admin": admin})
            return _play(stage, settings, browser, folder, stay=stay)

    perform("The dashboard on real Kafka and Cassandra", on_servers(play))


def _play(
    stage: Stage, settings: Settings, browser: Browser | None, folder: Path, *, stay: bool
) -> bool:
    stage.start(_NODES, _COMMAND)
    with AdminRunning(settings) as running, contextlib.closing(Load(settings, _PER_S)) as load:
        load.begin()
        stage.say(f"the dashboard: {running.address}")

        def line() -> str:
            return _line(running)

        cluster = running.service.cluster
        stage.watch(lambda: len(cluster.blocked().blocked) == len(STUCK), _BLOCKED_S, line)
        checks = [count_check("keys that block", cluster.blocked().blocked, len(STUCK))]
        stage.watch(lambda: False, _BEFORE_S, line)
        stage.kill(stage.nodes[0])
        stage.say("one node was killed; the others take over, and a new one comes")
        stage.start(1, _COMMAND)
        stage.watch(lambda: False, _AFTER_S, line)
        if browser is not None:
            checks += _look(stage, running, browser, folder)
        if stay:
            stage.say(f"it stays up: {running.address}; Ctrl-C stops it")
            threading.Event().wait()
        return show_checks(stage.console, "The dashboard", checks)


def _look(stage: Stage, running: AdminRunning, browser: Browser, folder: Path) -> list[Check]:
    """Take the pictures, and one of a node that dies while somebody looks."""
    seen = Seen([], set())
    blocked = running.service.cluster.blocked().blocked[-1].key
    size = write_all(browser, running.address, folder, seen, quote(blocked, safe=""))
    stage.say(f"pictures of every screen are in {folder} ({size / 1000:,.0f} kB)")
    noticed = 0
    with open_page(browser, running.address, "light", seen) as page:
        show(page, running.address, "nodes")
        victim = stage.nodes[0]
        stage.kill(victim)
        card = page.locator(f".node-card[data-state=silent][aria-label*='-{victim.pid}-']")
        card.wait_for(timeout=_SILENT_S * 1_000)
        unknown = page.locator(".notice", has_text="No node reports on")
        unknown.wait_for(timeout=_SILENT_S * 1_000)
        noticed = unknown.count()
        size += write(page, folder / "node-dies-light.webp")
    letters = len(running.service.dead_letters.page(None, 50).letters)
    return [
        count_check("complaints of the browser", seen.errors),
        count_check("hosts that were asked", sorted(seen.hosts), 1),
        Check("a node that dies is told of", "1 notice", f"{noticed} notice", noticed == 1),
        number_check("dead letters", len(BROKEN), letters),
        Check("size of the pictures", f"≤ {BYTES_MAX:,} B", f"{size:,} B", size <= BYTES_MAX),
    ]


def _line(running: AdminRunning) -> str:
    status = running.service.cluster.status()
    rate, blocked = status.executions_per_s or 0, status.blocked or 0
    return f"{rate:6.1f}/s, p99 {status.lateness_ms.p99 or 0} ms, blocked {blocked}"


if __name__ == "__main__":
    typer.run(main)
