"""The text of a row: a task's data, with the record's other members around it.

An envelope, and behind it links, are the first members of the JSON object; priority, kind, expiry
and trace are its last ones, in compact form. So the text follows the task wherever its row goes,
and nodes of other versions read it. If data contains anything that could be taken for one of
these, a space is added there, which JSON ignores and which no member of ours has. So nothing in the
data chooses anything.
Decides the places of these members, never their meaning.
"""

from hourhand.actors.model.task.expiry import Expiry, with_expiry
from hourhand.actors.model.task.kind import with_kind
from hourhand.actors.model.task.links_text import OPENS as OPENS_LINKS
from hourhand.actors.model.task.links_text import marked, with_links
from hourhand.actors.model.task.priority import REACH_BYTES, split_members, with_priority
from hourhand.actors.model.task.sealed import OPENS, split_envelope, with_envelope
from hourhand.actors.model.task.trace import RESERVED, with_context


def escaped(data: bytes) -> bytes:
    """Return data, a JSON object, in the form of a row."""
    if data.startswith((OPENS, OPENS_LINKS)):
        data = b"{ " + data[1:]
    if data.find(RESERVED, -REACH_BYTES) >= 0:
        data = data.rstrip()
        assert data.endswith(b"}"), "data is a JSON object"
        data = data[:-1] + b" }"
    return data


def row_text(
    data: bytes,
    kind: str | None = None,
    priority: int | None = None,
    context: bytes | None = None,
    envelope: bytes | None = None,
    expiry: Expiry | None = None,
    links: bytes | None = None,
) -> bytes:
    """Return the text of a row; ``context`` is the sampled trace, ``envelope`` and ``links`` are
    JSON.
    """
    text = escaped(data)
    if links is not None:
        text = with_links(text, links)
    if envelope is not None:
        text = with_envelope(text, envelope)
    if priority is not None:
        text = with_priority(text, priority)
    if kind is not None:
        text = with_kind(text, kind)
    if links is not None:
        text = marked(text)
    if expiry is not None:
        text = with_expiry(text, expiry)
    return text if context is None else with_context(text, context)


def data_of(text: bytes) -> bytes:
    """Return the data in a row's text; for sealed data the members that are not sealed."""
    return split_envelope(split_members(text)[2])[1]
