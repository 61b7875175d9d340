"""Sealed data as a reading client shows it: opened, or with the reason why it is not.

Decides that no task is left out of an answer because its data cannot be opened.
"""

from typing import Any

from msgspec.structs import replace

from actors.model.display import message_of
from actors.model.sealed import MEMBER, envelope_in
from scheduler.payloads.codecs import PayloadCodecs
from scheduler.reading.task_info import TaskInfo


def opened_info(info: TaskInfo, payloads: PayloadCodecs | None) -> TaskInfo:
    """Return a task with plain data, or without data and with ``sealed``."""
    data = info.data
    if data is None or MEMBER not in data:
        return info
    if payloads is None:
        return replace(info, data=None, sealed=str(envelope_in(data) or "sealed"))
    ids = info.key.ordering_id, info.key.uniqueness_key, info.kind
    try:
        return replace(info, data=payloads.opened_data(data, *ids))
    except Exception as error:  # noqa: BLE001 - a codec is user code, and the rest can be shown
        return replace(info, data=None, sealed=message_of(error))


def opened_rule_data(
    payloads: PayloadCodecs, name: str, kind: str | None, data: dict[str, Any]
) -> dict[str, Any]:
    """Return the data of a recurring schedule; as it is stored where it cannot be opened."""
    if MEMBER not in data:
        return data
    try:
        return payloads.opened_data(data, "", f"{name}@", kind)
    except Exception:  # noqa: BLE001 - as above
        return data
