"""Each record and row that came with expiry, snoozes, results, followers and declared schedules.

A node of the version before shares the log and the tables with today's.  It must hold or refuse
what it does not know, and read the rest as ``docs/operations/upgrading.md`` says.  The old code is
the real one, of this repository's history; one process reads everything.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hourhand.actors.model.flow.flow import Limit
from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.operations.operator_config import (
    OperatorConfig,
    decode_config,
    encode_config,
)
from hourhand.actors.model.operations.oversight import (
    DeclaredLimit,
    NodeReport,
    decode_reports,
    encode_report,
)
from hourhand.actors.model.task.codec import (
    Command,
    CommandKind,
    LogRecord,
    decode_record,
    encode_command,
    encode_json,
    encode_task,
)
from hourhand.actors.model.task.definition import DefinitionKind
from hourhand.actors.model.task.expiry import Expiry
from hourhand.actors.model.task.links import EndRecord, Links, Then, encode_links, follower_record
from hourhand.actors.model.task.row_text import row_text
from hourhand.actors.model.task.status import (
    STORED_RESULTS,
    AttemptRecord,
    AttemptResult,
    CompletionResult,
    stored_attempt,
)
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.errors import PoisonRecord
from hourhand.scheduler.adapters.embedded.schema import STORE
from hourhand.scheduler.services.recurring.declared import declaration_of, declaration_task
from hourhand.scheduler.services.recurring.rule import RecurringRule
from hourhand.scheduler.services.recurring.state import (
    State,
    rule_values,
)
from hourhand.scheduler.tasks.grouping import group_of
from tests.builders import NOW_MS, a_key
from tests.two_versions.versions import unpacked

BEFORE_LIFE = "e4ac20c1c6e49678717fb97b8227734c6bd7a6a9"
"""The last commit whose nodes know no expiry, snooze, result, follower or declared schedule."""
READER = Path(__file__).with_name("older_reader.py")
TIMEOUT_S = 120
DATA = b'{"n":1}'
KEY, NEXT = a_key(), a_key(uniqueness_key="next")
FOLLOWER = encode_json(NEXT, DATA, "mail")
LINKS = encode_links(Links(Then(msgspec.Raw(FOLLOWER))))
END = EndRecord(str(KEY), "success", "2026-11-28T09:00:00.000Z", 1)
RULE = RecurringRule(every_ms=60_000, ordering_id="r", data={"n": 1})
WITHOUT_DATES = RecurringRule(
    cron="0 0 * * *", ordering_id="r", data={"n": 1}, except_dates=["2026-12-25"]
)
TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
GROUP = group_of([(KEY, encode_json(KEY, DATA, "mail"))], (NEXT, FOLLOWER), "any", NOW_MS)
STATE = State(rule_values(RULE), NOW_MS, "made", taken=3, paused=True)
OWNED = msgspec.structs.replace(STATE, owner="app:shop", revision=4, ahead=(NOW_MS,))
HELD = {"held": True}
RUN = {"held": False, "kind": "mail", "data": {"n": 1}}

ROWS: Mapping[str, bytes] = {
    "expiry": row_text(DATA, expiry=Expiry(at_ms=NOW_MS)),
    "expiry after a time": row_text(DATA, "mail", expiry=Expiry(after_ms=5)),
    "expiry, priority and trace": row_text(DATA, "mail", 5, TRACE, expiry=Expiry(at_ms=NOW_MS)),
    "then": row_text(DATA, "mail", links=LINKS),
    "then without a kind": row_text(DATA, links=LINKS),
    "after": row_text(DATA, "mail", links=encode_links(Links(after=(END,)))),
    "then and expiry": row_text(DATA, "mail", 5, TRACE, expiry=Expiry(after_ms=5), links=LINKS),
}
"""Texts of rows that an older node must hold: it has no executor for them."""
RECORDS: Mapping[str, tuple[bytes, Mapping[str, object]]] = {
    "expires": (FOLLOWER[:-1] + b',"expires":"PT5S"}', RUN),
    "then": (GROUP.members[0][1], RUN),
    "after": (follower_record(Then(msgspec.Raw(FOLLOWER)), END), RUN),
    "group": (GROUP.request[1], HELD),
    "declaration": (
        encode_task(
            declaration_task(
                "app:shop", declaration_of({"a": RULE}, {"a": RULE}, forced=False), NOW_MS
            )
        ),
        HELD,
    ),
    "replace": (
        encode_command(Command(CommandKind.REPLACE, KEY, to_ms=NOW_MS, body=row_text(DATA))),
        {"error": "PoisonRecord"},
    ),
}
"""Records of the log, and what an older node makes of them."""
STATES = {
    "owned": OWNED,
    "dates": msgspec.structs.replace(STATE, rule=rule_values(WITHOUT_DATES)),
}
RATED = LimitChange("call#1", rate=2, rates={"gold": 80})
SNOOZED = AttemptRecord(KEY, 1, AttemptResult.SNOOZED, NOW_MS, NOW_MS, snoozed=2)
REPORT = NodeReport(
    "a",
    limits=(DeclaredLimit.named("call#1", Limit(rate={"gold": 80, "*": 2}, key="plan")),),
    judges_occurrences=True,
)


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, str], dict[str, Any]]:
    """Return what the old version makes of everything, by what it is and its name."""
    asked = {
        **{("row", name): text.decode() for name, text in ROWS.items()},
        **{("record", name): record.decode() for name, (record, _) in RECORDS.items()},
        **{("state", name): msgspec.json.encode(each).decode() for name, each in STATES.items()},
        **{("completion", each.value): STORED_RESULTS[each] for each in CompletionResult},
        ("attempt", "snoozed"): stored_attempt(SNOOZED).result.value,
        ("config", "rates"): encode_config(OperatorConfig(limits=(RATED,))).decode(),
        ("report", "rates"): encode_report(REPORT).decode(),
        ("folder", "store"): "",
    }
    source = unpacked(tmp_path_factory.mktemp("before"), BEFORE_LIFE)
    done = subprocess.run(
        [sys.executable, READER],
        input=json.dumps([(what, body) for (what, _), body in asked.items()]),
        env={**os.environ, "PYTHONPATH": str(source)},
        cwd=source,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    return dict(zip(asked, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("name", ROWS)
def test_a_row_with_what_it_does_not_know_is_held(
    read: Mapping[tuple[str, str], dict[str, Any]], name: str
) -> None:
    """No executor gets it, whatever stands beside; today's version has all of it, and refuses the
    dead letter that an older node makes of the row: it would run without.
    """
    found = read["row", name]
    assert found == {"what": "row", "held": True, "letter": found["letter"]}
    with pytest.raises(PoisonRecord, match="is a kind of Hourhand's own"):
        decode_record(LogRecord(0, 7, NOW_MS, None, found["letter"].encode()))

    task = StoredTask(KEY, ROWS[name], 7)
    assert json.loads(task.data) == {"n": 1}
    assert (task.expiry is not None) is ("expiry" in name)


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_held_refused_or_run_as_the_page_on_upgrades_says(
    read: Mapping[tuple[str, str], dict[str, Any]], name: str
) -> None:
    """And today's version reads each of them."""
    record, wanted = RECORDS[name]

    found = read["record", name]
    assert {each: found.get(each) for each in wanted} == wanted
    assert decode_record(LogRecord(0, 7, NOW_MS, None, record)) is not None


def test_each_new_kind_of_system_task_is_held() -> None:
    """Those of the records above are all that came."""
    known = {"relay", "timer", "recurring", "parked", "unique", "debounced"}
    assert {each.value for each in DefinitionKind} - known == {"declared", "group"}


@pytest.mark.parametrize("result", CompletionResult)
def test_each_end_is_one_that_it_knows(
    read: Mapping[tuple[str, str], dict[str, Any]], result: CompletionResult
) -> None:
    """So a closed task stays closed; an expired one is a dropped one to it."""
    expired = result is CompletionResult.EXPIRED
    assert read["completion", result.value]["result"] == ("dropped" if expired else result.value)


def test_a_snoozed_attempt_is_a_retry_that_used_up_none(
    read: Mapping[tuple[str, str], dict[str, Any]],
) -> None:
    """It looks at the task again at that time."""
    assert read["attempt", "snoozed"]["result"] == "retry"
    assert stored_attempt(SNOOZED).used == 0


def test_the_state_of_a_declared_schedule_keeps_all_but_its_owner(
    read: Mapping[tuple[str, str], dict[str, Any]],
) -> None:
    """Why declarations come last: a tick on an older node writes the state without."""
    written = msgspec.json.decode(read["state", "owned"]["written"], type=State)

    assert written == msgspec.structs.replace(OWNED, owner=None, revision=0, ahead=())
    assert written.paused and written.taken == 3


def test_a_rule_that_it_cannot_read_makes_no_task(
    read: Mapping[tuple[str, str], dict[str, Any]],
) -> None:
    """Its tick fails and is tried again, until a newer node has the partition."""
    assert read["state", "dates"]["error"] == "ValidationError"


def test_rates_of_single_values_are_those_of_the_rest_to_it(
    read: Mapping[tuple[str, str], dict[str, Any]],
) -> None:
    """What it writes again is without them."""
    (change,) = decode_config(read["config", "rates"]["written"].encode()).limits
    assert change == LimitChange("call#1", rate=2)
    (report,) = decode_reports([("a", 1, 0, read["report", "rates"]["written"].encode())])
    assert (report.limits[0].rate, report.limits[0].rates) == (2, {})
    assert not report.judges_occurrences


def test_a_folder_of_today_opens_in_the_version_before(
    read: Mapping[tuple[str, str], dict[str, Any]],
) -> None:
    """Tables of results and outcomes are ones that it does not miss."""
    assert STORE.version <= read["folder", "store"]["opens"]
