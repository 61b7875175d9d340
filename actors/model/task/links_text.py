"""The place of links in the text of a row: in front of the data, with their length in bytes.

Near its end such a text has a kind that no node has: a node of the version before, which knows no
followers, holds the task.  That mark alone says that there are links, as data may begin with
anything.  Decides where links stand, never what they say (``links``).
"""

import re

from hourhand.actors.model.task.trace import appended

MEMBER = "hourhand.links"
"""The member's name in the text of a row."""
HOLDING_KIND = "hourhand:linked"
"""The kind that a node of the version before reads in a row with links."""
OPENS = b'{"%b":[' % MEMBER.encode()
"""The begin of a row with links; data may not begin so."""

MARK = b'"hourhand.kind":"%b"}' % HOLDING_KIND.encode()
"""The member that says at a row's end that links stand in front."""
MARK_BYTES = len(MARK) + len(b",")
_LENGTH = re.compile(rb'\{"hourhand\.links":\[([0-9]{1,9}),')
_BEGINS = b'{"hourhand.'


def with_links(data: bytes, links: bytes) -> bytes:
    """Return data, as JSON, with links in front."""
    # White space behind the brace stays: it distinguishes data from members of ours (``row_text``).
    rest = data.lstrip()[1:]
    comma = b"" if rest.lstrip().startswith(b"}") else b","
    return b"%b%d,%b]%b%b" % (OPENS, len(links), links, comma, rest)


def marked(text: bytes) -> bytes:
    """Return the text of a row that has links and carries no trace or expiry, with its mark."""
    return appended(text, MARK)


def split_mark(text: bytes) -> tuple[bool, bytes]:
    """Return whether a row's text without trace and expiry has links, and the text unmarked."""
    if not text.endswith(MARK):
        return False, text
    return True, text[: -len(MARK)].removesuffix(b",") + b"}"


def may_have_links(text: bytes) -> bool:
    """True for a row's text that has links, and for few others: asked of each task that ends."""
    return text.startswith(_BEGINS)


def split_links(data: bytes) -> tuple[bytes | None, bytes]:
    """Return the links in front of the data of a marked row, as JSON, and the data behind them."""
    found = _LENGTH.match(data)
    if found is None:
        return None, data
    end = found.end() + int(found[1])
    if data[end : end + 1] != b"]":
        return None, data
    return data[found.end() : end], b"{" + data[end + 1 :].removeprefix(b",")
