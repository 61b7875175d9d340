"""Decides the begin of reading of a partition, from the knowledge of store, group and broker.

Decides whether the topic is still the one that was read before, and which noted offsets are valid.
It never asks anybody.
"""

from typing import NamedTuple

from hourhand.actors.model.values.log_offset import broker_offset, era_of, kept_offset


class Noted(NamedTuple):
    """The store's note about a partition."""

    next_offset: int | None = None
    """In the stored form, with its topic's era."""
    topic_id: str = ""
    """The topic that it belongs to; empty if it was not noted."""


class Found(NamedTuple):
    """The current answers of group and broker about a partition; offsets are the broker's own."""

    committed: int | None
    first: int
    end: int
    topic_id: str = ""
    """The current topic; empty if the broker has no ids of topics."""
    committed_topic_id: str = ""
    """The topic of ``committed``; empty if it is unknown."""


class Beginning(NamedTuple):
    """The begin of reading; offsets in their stored form."""

    next_offset: int
    first_offset: int
    end_offset: int
    topic_id: str
    complaint: str = ""
    """A warning for the operator."""


def chosen_beginning(noted: Noted, found: Found) -> Beginning:
    """Return the highest known next offset that this topic can hold, else its first.

    An offset of another topic of this name is not valid, nor is one beyond the end. One before the
    first record means that records expired unread.
    """
    stored = None if noted.next_offset is None else broker_offset(noted.next_offset)
    unnamed = not (noted.topic_id and found.topic_id)
    renamed = not unnamed and noted.topic_id != found.topic_id
    # Without a noted topic, an offset beyond the end shows that the log began again from 0.
    anew = renamed or (unnamed and stored is not None and stored > found.end)
    committed = found.committed if _is_of_topic(found, anew=anew) else None
    known = [each for each in (committed, None if anew else stored) if each is not None]
    position = max((each for each in known if each <= found.end), default=found.first)
    era = era_of(noted.next_offset) + anew
    return Beginning(
        kept_offset(era, max(position, found.first)),
        kept_offset(era, found.first),
        kept_offset(era, found.end),
        found.topic_id or noted.topic_id,
        _complaint(noted, found, position, anew=anew),
    )


def _is_of_topic(found: Found, *, anew: bool) -> bool:
    """True if the group's offset was committed for the current topic."""
    if found.committed_topic_id and found.topic_id:
        return found.committed_topic_id == found.topic_id
    return not anew


def _complaint(noted: Noted, found: Found, position: int, *, anew: bool) -> str:
    foreign = found.committed is not None and not _is_of_topic(found, anew=anew)
    if anew or (foreign and noted.next_offset is None):
        return (
            "the topic was recreated: it is not the one that was read before, so it is read from"
            f" offset {max(position, found.first)}, and what its predecessor held unread is gone"
        )
    stored = None if noted.next_offset is None else broker_offset(noted.next_offset)
    beyond = [each for each in (None if foreign else found.committed, stored) if each is not None]
    if beyond and max(beyond) > found.end:
        return (
            f"it ends at {found.end}, but {max(beyond)} was noted as next: the log lost its last"
            " records"
        )
    if position < found.first:
        return (
            f"it begins at {found.first}, but {position} was to be read next: records expired"
            " unread, the topic's retention is too short"
        )
    return ""
