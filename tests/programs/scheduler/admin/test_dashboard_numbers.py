"""Numbers keep their digits on the way through the dashboard's own modules, run by Node."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hourhand import Scheduler, Task
from hourhand.scheduler.tasks.inspector import TaskState
from tests.programs.scheduler.admin.dashboard_modules import NEEDS_NODE, copied, ran, served
from tests.waiting import until

pytestmark = NEEDS_NODE

HARD = (
    '{"snowflake":3889108265204450031,"amount":1.0,"small":-0.0,"large":1e22,"exact":'
    '-9007199254740993,"none":null,"yes":true,"empty":{},"list":[],"data":{"taskData":'
    '[1.10,{"data":12345678901234567}]},"text":"\\"data\\":1.0, {[ \\\\","key:\\"1.0":"1.0"}'
)


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """Return a copy of the dashboard's modules."""
    return copied(tmp_path / "js")


def _sourced(text: str) -> Any:
    return json.loads(
        text, parse_int=lambda each: ("n", each), parse_float=lambda each: ("n", each)
    )


READ = """
import { indented, readJson, writeJson } from "./json_text.js";
const read = readJson(process.argv[2]);
console.log(JSON.stringify({
  written: writeJson(read),
  shown: indented(read),
  plain: read.rule.countMax + 1,
  after: read.after,
}));
"""


@pytest.mark.parametrize("name", ["data", "taskData"])
@pytest.mark.parametrize("value", [HARD, "{}", "[]", "null", "1.0", '"1.0"', '{"a":"\\u0031"}'])
def test_data_keeps_its_source_text_and_the_rest_is_values(
    modules: Path, name: str, value: str
) -> None:
    """Read, shown and written; members of the data that look like the API's are data."""
    text = (
        f'{{"text":"\\"{name}\\":1.0","rule":{{"countMax":2,"{name}": {value} }},'
        f'"rows":[{{"{name}":{value}}}],"after":"{name}"}}'
    )

    told = json.loads(ran(modules, READ, text))

    assert _sourced(told["written"]) == _sourced(text) == _sourced(told["shown"])
    assert told["written"].count(f'"{name}":{value}') == 2
    assert (told["plain"], told["after"]) == (3, name)


EDIT = """
globalThis.document = { baseURI: process.argv[2] };
globalThis.sessionStorage = { getItem: () => null };
const { act, ask } = await import("./api.js");
const { indented, JsonText } = await import("./json_text.js");
const { task } = await ask("task", { key: process.argv[3] });
const { recurring } = await ask("recurring/schedule", { name: "r" });
const typed = indented(recurring.rule.data);
await act("recurring/schedule", { name: "r", cron: "0 0 1 2 *", data: new JsonText(typed) });
console.log(indented(task.taskData));
"""


def test_a_schedule_that_is_edited_keeps_every_digit_of_its_data(
    tmp_path: Path, modules: Path
) -> None:
    """From the API through the page and back to the API."""
    data = json.loads(HARD)
    at = datetime.now(UTC) + timedelta(hours=1)
    task = Task(ordering_id="o", scheduled_time=at, uniqueness_key="u", data=data)
    with served(tmp_path / "data") as (scheduler, url):
        key = scheduler.schedule_task(task).result(timeout=60).key
        scheduler.schedule_recurring("r", cron="0 0 1 1 *", data=data).result(timeout=60)
        until(lambda: scheduler.find_recurring("r") is not None)
        until(lambda: scheduler.find_task(key).state is TaskState.PENDING)

        shown = ran(modules, EDIT, url, str(key))

        assert json.dumps(json.loads(shown)) == json.dumps(data)
        until(lambda: _rule(scheduler).cron == "0 0 1 2 *")
        assert json.dumps(_rule(scheduler).data) == json.dumps(data)


def _rule(scheduler: Scheduler) -> Any:
    found = scheduler.find_recurring("r")
    assert found is not None
    return found.rule
