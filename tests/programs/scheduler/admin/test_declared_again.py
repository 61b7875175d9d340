"""Recurring schedules that are declared again through each door: an equal rule changes nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from hourhand import Scheduler
from hourhand.scheduler.services.recurring.state import Recurring
from tests.programs.scheduler.admin.dashboard_modules import NEEDS_NODE, copied, ran, served
from tests.unit.scheduler.cli.commands import invoke
from tests.waiting import until

_STARTS = datetime(2026, 1, 1, 6, 0, 0, 250_000, tzinfo=UTC)
_RULES: dict[str, dict[str, Any]] = {
    "plain": {"cron": "30 2 * * *"},
    "interval": {"every": timedelta(milliseconds=90_500), "data": {"a": [1, None, 1.0]}},
    "full": {
        "cron": "0 0 12 * * MON-FRI",
        "time_zone": "Europe/Berlin",
        "ordering_id": "customer 7",
        "kind": "mail",
        "priority": 0,
        "data": {"large": 3889108265204450031, "text": 'ü "quoted"'},
        "overlap": "buffer_one",
        "catch_up": timedelta(days=2),
        "jitter": timedelta(milliseconds=1_001),
        "starts": _STARTS,
        "ends": _STARTS + timedelta(days=9_000),
        "except_dates": ["2026-12-25", date(2027, 1, 1)],
        "count_max": 5,
    },
}
_OPTIONS: dict[str, list[str]] = {
    "plain": ["--cron", "30 2 * * *"],
    "interval": ["--every", "90500ms", "--data", '{"a": [1, null, 1.0]}'],
    "full": [
        "--cron",
        "0 0 12 * * MON-FRI",
        "--time-zone",
        "Europe/Berlin",
        "--ordering-id",
        "customer 7",
        "--kind",
        "mail",
        "--priority",
        "0",
        "--data",
        '{"large": 3889108265204450031, "text": "ü \\"quoted\\""}',
        "--overlap",
        "buffer_one",
        "--catch-up",
        "2d",
        "--jitter",
        "1001ms",
        "--from",
        "2026-01-01T07:00:00.250+01:00",
        "--until",
        "2050-08-23T06:00:00.250Z",
        "--except-dates",
        "2027-01-01, 2026-12-25",
        "--times",
        "5",
    ],
}
_BODIES: dict[str, dict[str, Any]] = {
    "plain": {"cron": "30 2 * * *"},
    "interval": {"everyMs": 90_500, "data": {"a": [1, None, 1.0]}},
    "full": {
        "cron": "0 0 12 * * MON-FRI",
        "timeZone": "Europe/Berlin",
        "orderingId": "customer 7",
        "kind": "mail",
        "priority": 0,
        "data": {"large": 3889108265204450031, "text": 'ü "quoted"'},
        "overlap": "buffer_one",
        "catchUpMs": 172_800_000,
        "jitterMs": 1_001,
        "starts": "2026-01-01T07:00:00.250+01:00",
        "ends": "2050-08-23T06:00:00.250Z",
        "exceptDates": ["2026-12-25", "2027-01-01"],
        "countMax": 5,
    },
}
_EDIT = """
globalThis.document = { baseURI: process.argv[2] };
globalThis.sessionStorage = globalThis.localStorage = { getItem: () => null };
const { act, ask } = await import("./api.js");
const { ruleBody, ruleFields } = await import("./making.js");
for (const name of process.argv.slice(3)) {
  const { recurring } = await ask("recurring/schedule", { name });
  const typed = ruleFields(recurring).map(({ name, value }) => [name, String(value ?? "")]);
  await act("recurring/schedule", ruleBody(recurring, Object.fromEntries(typed)));
}
"""


@dataclass(frozen=True)
class _Installation:
    """A node with every rule declared by the library, and a dashboard."""

    folder: Path
    scheduler: Scheduler
    url: str

    def by_command(self) -> None:
        """Declare every rule by ``hourhand recurring set``."""
        for name, options in _OPTIONS.items():
            result = invoke(self.folder, "recurring", "set", name, *options)
            assert result.exit_code == 0, result.output

    def by_http(self) -> None:
        """Declare every rule by ``POST /recurring/schedule``."""
        for name, body in _BODIES.items():
            url = f"{self.url}api/v1/recurring/schedule"
            sent = {"name": name, **body}
            httpx.post(url, json=sent, headers={"X-Hourhand": "test"}).raise_for_status()

    def found(self) -> dict[str, Recurring]:
        """Return the schedules that are there."""
        found = {name: self.scheduler.find_recurring(name) for name in _RULES}
        return {name: each for name, each in found.items() if each is not None}


@contextmanager
def _declared(folder: Path) -> Iterator[_Installation]:
    with served(folder) as (scheduler, url):
        installation = _Installation(folder, scheduler, url)
        for name, rule in _RULES.items():
            scheduler.schedule_recurring(name, **rule).result(timeout=60)
            scheduler.pause_recurring(name).result(timeout=60)
        until(lambda: [each.state.paused for each in installation.found().values()] == [True] * 3)
        yield installation


def _judge(installation: _Installation, declare: Callable[[], object]) -> None:
    """Declare every rule again, and see that this was heard and has changed nothing."""
    before = installation.found()

    declare()

    def heard() -> bool:
        now = installation.found()
        return all(now[name].state.made_by != before[name].state.made_by for name in before)

    until(heard)
    for name, each in installation.found().items():
        state = before[name].state
        assert each.rule == before[name].rule
        assert each.state.paused and each.next_ms == before[name].next_ms
        assert (each.state.anchor_ms, each.state.changed_at) == (state.anchor_ms, state.changed_at)
        assert each.state.declared_at > state.declared_at


def test_an_equal_rule_of_the_command_line_changes_nothing(tmp_path: Path) -> None:
    """Though it names times and durations in its own way."""
    with _declared(tmp_path / "data") as installation:
        _judge(installation, installation.by_command)


def test_an_equal_rule_over_http_changes_nothing(tmp_path: Path) -> None:
    """The answer says that it was accepted."""
    with _declared(tmp_path / "data") as installation:
        _judge(installation, installation.by_http)


@NEEDS_NODE
def test_a_schedule_that_is_edited_and_saved_as_it_was_changes_nothing(
    tmp_path: Path,
) -> None:
    """By the dashboard's own form, run by Node."""
    modules = copied(tmp_path / "js")
    with _declared(tmp_path / "data") as installation:
        _judge(installation, lambda: ran(modules, _EDIT, installation.url, *_RULES))
