"""Rules for groups: once all members have reported, the follower is in the log, and it was told
nothing else.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.links import EndRecord, Then, ordering_id_of
from hourhand.actors.model.task.status import CompletionResult
from hourhand.actors.model.task.task import StoredTask
from tests.simulation.follow_invariants import ended_well
from tests.simulation.judged import Complaints, Run

_GROUPS = "hourhand:group:"


@dataclass(slots=True)
class _Group:
    count: int
    follower: TaskKey
    on: str
    pairs: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Both ids of each member that the log has, by its number."""
    ends: dict[int, list[EndRecord]] = field(default_factory=lambda: defaultdict(list))
    """The reports of each."""

    @property
    def is_ready(self) -> bool:
        """True if all members have reported ends that bring the follower."""
        return len(self.ends) == self.count and (
            self.on == "any" or all(any(map(_is_good, each)) for each in self.ends.values())
        )


def a_group_has_its_follower(run: Run) -> Complaints:
    """The follower of each group whose members have reported as its producer asked stands in the
    log; it is told one end of each, in their order, that was reported; nothing else is sent.
    """
    groups, sent = _groups(run), defaultdict(list)
    for at_ms, entry in _tasks(run):
        if (links := entry.links) is not None and len(links.after) > 1:
            sent[entry.key].append((at_ms, links.after))
    wanted = {group.follower: group for group in groups.values()}
    for name, group in groups.items():
        if group.is_ready and group.follower not in sent:
            yield f"all of {name} have ended, and {group.follower} was not sent"
    for key, records in sent.items():
        for at_ms, told in records:
            if key not in wanted:
                yield f"{key} follows several, and nobody asked for that"
            else:
                yield from _told_wrongly(run, wanted[key], at_ms, told)


def _told_wrongly(
    run: Run, group: _Group, at_ms: float, told: tuple[EndRecord, ...]
) -> Iterator[str]:
    keys = [TaskKey.parse(each.key) for each in told]
    if [key[1:] for key in keys] != [group.pairs.get(each) for each in range(group.count)]:
        yield f"{group.follower} was told of {keys}, which are not its group"
        return
    for number, (key, end) in enumerate(zip(keys, told, strict=True)):
        if end not in group.ends[number]:
            yield f"{group.follower} was told of an end of {key} that it did not report"
        if group.on == "success" and not _is_good(end):
            yield f"{group.follower} follows the {end.state} of {key}, and success was asked for"
        if _is_good(end) and not ended_well(run, key, at_ms):
            yield f"{group.follower} was told that {key} succeeded, and no attempt had"


def _groups(run: Run) -> Mapping[str, _Group]:
    """Return the groups that were asked for, by their ordering ids."""
    found: dict[str, _Group] = {}
    for _, entry in _tasks(run):
        if entry.key.ordering_id.startswith(_GROUPS):
            data = json.loads(entry.body) if entry.links is None else {}
            if data.get("group") == "made":
                follower = Then(data["follower"].encode()).key
                found.setdefault(
                    entry.key.ordering_id, _Group(data["members"], follower, data["on"])
                )
    for _, entry in _tasks(run):
        links = entry.links
        if links is None:
            continue
        if entry.key.ordering_id.startswith(_GROUPS):
            number = int(entry.key.uniqueness_key[7:10])
            found[entry.key.ordering_id].ends[number] += links.after
        elif links.then is not None and ordering_id_of(links.then.task).startswith(_GROUPS):
            number = int(links.then.key.uniqueness_key[7:10])
            found[links.then.key.ordering_id].pairs[number] = entry.key[1:]
    return found


def _tasks(run: Run) -> Iterator[tuple[float, StoredTask]]:
    """Yield the tasks in the log, and when each was appended."""
    for partition in range(run.partitions):
        for offset, entry in run.truth.entries(partition):
            if isinstance(entry, StoredTask):
                yield run.truth.appended_ms(partition, offset) - run.wall_at_start_ms, entry


def _is_good(end: EndRecord) -> bool:
    return end.state == CompletionResult.SUCCESS.value
