"""Reading the log again from an earlier place, after a store lost rows that it had acknowledged.

Decides the new place of each partition and the conditions for the move. It sets both the group's
offsets and the store's, because a node begins at the higher of the two.
"""

import re
from collections.abc import Mapping

from msgspec.structs import replace

from hourhand.actors.model.operations.ownership import Ownership
from hourhand.actors.model.values.errors import InvalidInput
from hourhand.actors.model.values.log_offset import broker_offset, era_of, kept_offset
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import GroupOffsets
from hourhand.actors.ports.store import OwnershipStore
from hourhand.scheduler.admin.answers import Answer
from hourhand.scheduler.runtime.answers import JOB_S, answered

_PLACE = re.compile(r"(\d{1,10}):(\d{1,19})", re.ASCII)


class Move(Answer, frozen=True):
    """The place where a partition would continue, and its new place."""

    partition: int
    before: int
    after: int


def parse_places(text: str) -> dict[int, int] | None:
    """Read ``partition:offset,…``; None for another text, such as a time."""
    found = [_PLACE.fullmatch(each.strip()) for each in text.split(",")]
    if any(each is None for each in found):
        return None
    places = {int(each[1]): int(each[2]) for each in found if each is not None}
    if len(places) < len(found):
        raise InvalidInput(f"{text!r} names a partition twice")
    return places


class Rewinding:
    """Plans and makes the moves; all nodes of the group must have stopped."""

    def __init__(self, offsets: GroupOffsets, store: OwnershipStore, clock: Clock) -> None:
        self._offsets = offsets
        self._store = store
        self._clock = clock

    def plan(self, wanted: Mapping[int, int], *, forward: bool) -> list[Move]:
        """Return the changes; InvalidInput if they are not allowed."""
        if members := self._offsets.members():
            raise InvalidInput(f"the group has {members} members: stop every node first")
        bounds, committed = self._offsets.bounds(), self._offsets.committed()
        moves = []
        for partition, asked in sorted(wanted.items()):
            if partition not in bounds:
                raise InvalidInput(f"the topic has no partition {partition}")
            first, end = bounds[partition]
            if asked > end:
                raise InvalidInput(f"partition {partition} ends at {end}: {asked} is behind that")
            claim = answered(self._store.read_watermark(partition), JOB_S)
            stored = 0 if claim is None else broker_offset(claim.watermark.next_offset or 0)
            before = max(first, committed.get(partition, 0), stored)
            after = max(first, asked)
            if after > before and not forward:
                raise InvalidInput(
                    f"partition {partition} was read up to {before}, and {after} is behind that:"
                    " --forward skips the records in between, which are then never read"
                )
            if after != before:
                moves.append(Move(partition=partition, before=before, after=after))
        return moves

    def move(self, moves: list[Move]) -> tuple[None, str]:
        """Set both places, the group's first, because the broker refuses that while the group has
        members. Returns the words for the audit log.

        Each partition is claimed, so an unknown node cannot save anything after that.
        """
        self._offsets.set({each.partition: each.after for each in moves})
        for each in moves:
            claim = answered(self._store.claim(each.partition, self._clock.now_ms()), JOB_S)
            write_time = Ownership(each.partition, claim.epoch).next_write_time()
            next_offset = kept_offset(era_of(claim.watermark.next_offset), each.after)
            mark = replace(claim.watermark, next_offset=next_offset, write_time=write_time)
            answered(self._store.save_watermark(each.partition, claim.epoch, mark), JOB_S)
        return None, f"moved {len(moves)}"
