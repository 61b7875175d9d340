"""What nodes have read of the log: why a task is not listed yet, or a command has no outcome.

Tells by what the owners report, and by what the store remembers of a partition that has none.
"""

from scheduler.admin.picture import ShownPartition
from scheduler.admin.service import AdminService
from scheduler.futures.answers import answered

_START = "start one with `hourhand run`"


def unread_hint(service: AdminService) -> str | None:
    """Return what to say of records that wait in the log; None where none does, or a node reads.

    The cluster was read before.
    """
    alone = [
        each
        for each in service.cluster.partitions().partitions
        if each.owner is None and each.end_offset
    ]
    looks = [(each, service.stores.ownership.find_watermark(each.partition)) for each in alone]
    claims = [(each, answered(look)) for each, look in looks]
    count = sum(
        _unread(each, None if claim is None else claim.watermark.next_offset)
        for each, claim in claims
    )
    if not count:
        return None
    waiting = "1 record waits" if count == 1 else f"{count} records wait"
    if all(claim is None for _, claim in claims) and len(service.cluster.nodes().nodes) == 0:
        return f"{waiting} in the log, which no node has read yet: {_START}"
    return f"{waiting} in partitions of the log that no node owns now: {_START}"


def _unread(partition: ShownPartition, next_offset: int | None) -> int:
    return max(0, (partition.end_offset or 0) - (next_offset or 0))


def no_outcome_reason(service: AdminService, partition: int, offset: int) -> str | None:
    """Return why a place of the log will never have an outcome; None where it still may.

    The cluster was read before.
    """
    partitions = service.cluster.partitions().partitions
    if partition >= len(partitions):
        return f"the log has partitions 0 to {len(partitions) - 1}"
    told = partitions[partition]
    if told.end_offset is None and service.settings.log == "kafka":
        # The broker did not answer; the embedded log knows no end of what never had a record.
        return None
    end_offset = told.end_offset or 0
    if offset >= end_offset:
        return f"partition {partition} holds {end_offset} records so far"
    claim = answered(service.stores.ownership.find_watermark(partition))
    read = 0 if claim is None else claim.watermark.next_offset or 0
    if offset < max(read, told.next_offset or 0):
        return "it is not a command, or its outcome is no longer kept"
    return None
