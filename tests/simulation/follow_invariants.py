"""Rules for followers: no end is durable before its follower is in the log, and none comes of
nothing.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from hourhand.actors.model.execution.attempts import Ending
from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.links import EndRecord
from hourhand.actors.model.task.task import StoredTask
from tests.simulation.judged import Complaints, Run

_ENDS = {"success", "failure", "dropped", "expired", "cancelled"}


class _Follower(NamedTuple):
    """The followers of one task in the log."""

    key: TaskKey
    ended: EndRecord
    at_ms: float
    """Time at which its record was appended."""


def p29_an_end_has_its_follower(run: Run) -> Complaints:
    """The follower of each task that ended as its producer asked stands in the log, from before
    that end was durable, and says that end; no other end brings one.
    """
    asked, sent = _asked(run), _sent(run)
    for key, completions in run.completed.items():
        wanted = asked.get(key[1:])
        if wanted is None:
            continue
        follower, on = wanted
        for each in completions:
            if each.result not in _ENDS or (on == "success" and each.result != "success"):
                continue
            if not any(
                _is_of(of.key, follower)
                and of.ended.state == each.result
                and of.at_ms <= each.at_ms
                for of in sent[key]
            ):
                yield f"{key} ended as {each.result} at {each.at_ms:.0f} without its follower"
    for key, followers in sent.items():
        wanted = asked.get(key[1:])
        for of in followers:
            if wanted is None or not _is_of(of.key, wanted[0]):
                yield f"{of.key} follows {key}, and nobody asked for that"
            elif wanted[1] == "success" and of.ended.state != "success":
                yield f"{of.key} follows the {of.ended.state} of {key}, only success was asked for"
            elif of.ended.state == "success" and not ended_well(run, key, of.at_ms):
                yield f"{of.key} was told that {key} succeeded, and no attempt had"


def _is_of(sent: TaskKey, asked: TaskKey) -> bool:
    """True if a key is that of a follower, or of its report to a group about one end."""
    start, is_report = f"{asked.uniqueness_key}:", asked.ordering_id.startswith(RESERVED)
    return sent == asked or (
        is_report and sent[:2] == asked[:2] and sent.uniqueness_key.startswith(start)
    )


def ended_well(run: Run, key: TaskKey, at_ms: float) -> bool:
    """True if an attempt of a task had succeeded by then."""
    for start in run.started:
        end = run.ended.get(start.id) if start.key == key else None
        # The log cuts its times to milliseconds.
        if end is not None and end.ending == Ending.DONE and end.at_ms < at_ms + 1:
            return True
    return False


def _asked(run: Run) -> Mapping[tuple[str, str], tuple[TaskKey, str]]:
    """Return follower and condition by both ids of a task: a workload gives one for each."""
    found: dict[tuple[str, str], tuple[TaskKey, str]] = {}
    for partition in range(run.partitions):
        for _, entry in run.truth.entries(partition):
            if not isinstance(entry, str):
                body = entry.body
                row = None if body is None else StoredTask(entry.key, body, entry.offset)
                links = None if row is None else row.links
                if links is not None and links.then is not None:
                    found[entry.key[1:]] = links.then.key, links.then.on
    return found


def _sent(run: Run) -> Mapping[TaskKey, list[_Follower]]:
    """Return the followers in the log, by the task that they follow."""
    found: dict[TaskKey, list[_Follower]] = defaultdict(list)
    for partition in range(run.partitions):
        for offset, entry in run.truth.entries(partition):
            links = entry.links if isinstance(entry, StoredTask) else None
            # The follower of a group is told several.
            if isinstance(entry, StoredTask) and links is not None and len(links.after) == 1:
                at_ms = run.truth.appended_ms(partition, offset) - run.wall_at_start_ms
                for ended in links.after:
                    follower = _Follower(entry.key, ended, at_ms)
                    found[TaskKey.parse(ended.key)].append(follower)
    return found
