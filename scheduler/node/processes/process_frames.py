"""The frames between a node and its processes: each is a length, a kind and a record.

Decides the form, the version and the largest sizes.  Never trusts the other side: bytes that are
not a frame raise FrameBroken, and no content of a frame is ever executed.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from struct import Struct as Layout
from typing import TypeVar

import msgspec

from hourhand.actors.model.execution.backoff import RetryRuling
from hourhand.actors.model.task.task import AttemptState

FRAMES_VERSION = 3
"""Version of these records; a process of another version is refused."""
FRAME_BYTES_MAX = 1 << 30
"""Largest frame of the node, whose batches hold many tasks."""
ANSWER_BYTES_MAX = 16 << 20
"""Largest frame of a process."""
TICKET_BYTES = 8
"""Size of a ticket: the number of the work, little-endian; it is sent beside the frame."""

PIPE_LOST_CODE = 83
"""The exit code of a process that cannot reach its node."""

_HEAD = Layout(">IB")


class FrameKind(IntEnum):
    """The kinds of frames."""

    HELLO = 1
    """From a process: it has loaded user code."""
    REFUSED = 2
    """From a process: the reason why it cannot load user code."""
    WORK = 3
    ENDED = 4
    LOGGED = 5
    STOP = 6
    CHECKPOINT = 7
    """From a process: the newest checkpoint of an attempt."""
    RESULT = 8
    """From a process: the value of an attempt that has ended well, before the ends of its work."""
    PLAN = 10
    """This kind and all below, up to ``ENDED_PROCESS``, are between node and guardian."""
    START = 11
    KILL = 12
    ASK = 13
    STARTED_PROCESS = 14
    ENDED_PROCESS = 15


class FrameBroken(Exception):
    """The other side sent bytes that are not a frame of this version."""


class SentAttempt(msgspec.Struct, array_like=True, gc=False):
    """One attempt on its way to a process."""

    scheduled_ms: int
    ordering_id: str
    uniqueness_key: str
    body: bytes
    """The row's text."""
    offset: int
    attempts: AttemptState | None
    """None for a task that had none."""
    partition: int
    epoch: int
    number: int
    timeout_ms: int | None = None
    is_unordered: bool = False
    follows: int | None = None
    """Place of the attempt before it in the batch; -1 if that one is not in the batch."""
    expires_ms: int | None = None
    trace: bytes | None = None
    """The context of the span below which user code runs."""


class Work(msgspec.Struct, array_like=True):
    """The unit of work of a process: one attempt, or a batch of them."""

    seq: int
    attempts: Sequence[SentAttempt]
    is_batch: bool = False


class SentEnd(msgspec.Struct, array_like=True, gc=False):
    """The end of one attempt; its fields are those of ``AttemptEnded``."""

    place: int
    """Number of the attempt within its work."""
    ending: str
    started_ms: int
    finished_ms: int
    is_begun: bool = True
    """True if ``execute`` was called, so that a start is reported."""
    failed: "SentFailure | None" = None
    retry_after_ms: int | None = None
    reason: str | None = None
    uses_up_all: bool = False
    ruling: RetryRuling | None = None


class SentFailure(msgspec.Struct, array_like=True, gc=False):
    """The facts about an error."""

    error_class: str | None
    error_message: str | None
    error_stack: str | None
    is_told: bool
    """True if operators see it."""
    is_showable: bool = True
    has_whole_stack: bool = False


class Ended(msgspec.Struct, array_like=True):
    """The end of some work."""

    seq: int
    ends: Sequence[SentEnd]
    memory_bytes: int = 0
    """Memory of the process now; 0 if no limit needs it."""


class Hello(msgspec.Struct, array_like=True):
    """The first frame of a process that can run attempts."""

    version: int


class RefusedProcess(msgspec.Struct, array_like=True):
    """The only frame of a process that cannot run attempts."""

    complaint: str


class Logged(msgspec.Struct, array_like=True):
    """One line of a process's log."""

    name: str
    level: int
    message: str
    created_s: float
    path: str
    line: int
    function: str
    stack: str | None
    seq: int
    place: int
    """Number of the attempt that wrote it, within the work ``seq``; -1 for none."""


class SentText(msgspec.Struct, array_like=True):
    """The newest checkpoint of an attempt, or its value: a frame of its own, as a batch has
    many.
    """

    seq: int
    place: int
    """Number of the attempt, within the work ``seq``."""
    text: bytes
    """A row's text."""


class StartProcess(msgspec.Struct, array_like=True):
    """Asks the guardian for a process; two descriptors come with it."""

    number: int
    place: int


class Signalled(msgspec.Struct, array_like=True):
    """Asks the guardian to kill a process, or to ask it to end."""

    number: int


class StartedProcess(msgspec.Struct, array_like=True):
    """The guardian has started a process."""

    number: int
    pid: int


class EndedProcess(msgspec.Struct, array_like=True):
    """A process has ended, and left nothing behind."""

    number: int
    signal: int
    """The signal that killed it; 0 for none."""
    code: int
    why: str = ""
    """The reason if the guardian killed it by itself: ``lease`` or ``memory``."""
    memory_bytes: int = 0


Record = TypeVar("Record")
_encode = msgspec.msgpack.Encoder().encode


def frame(kind: FrameKind, record: object) -> bytes:
    """Return a record as a frame."""
    text = _encode(record)
    return _HEAD.pack(len(text), kind) + text


class Reads:
    """Decoders of records; each raises FrameBroken for bytes that are not one."""

    def __init__(self) -> None:
        self._decoders: dict[type, msgspec.msgpack.Decoder[object]] = {}

    def __call__(self, text: bytes, record: type[Record]) -> Record:
        """Return the record of a frame."""
        decoder = self._decoders.get(record)
        if decoder is None:
            decoder = self._decoders[record] = msgspec.msgpack.Decoder(record)
        try:
            found = decoder.decode(text)
        except (msgspec.MsgspecError, UnicodeError, ValueError, RecursionError) as error:
            raise FrameBroken(f"a {record.__name__} cannot be read: {error}") from error
        assert isinstance(found, record), "the decoder is of this type"
        return found


read_record = Reads()


class FrameReader:
    """Puts frames together from the pieces that arrive."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held = bytearray()

    def feed(self, piece: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the kind and the text of each frame that is complete; raises FrameBroken."""
        held = self._held
        held += piece
        at = 0
        try:
            while len(held) - at >= _HEAD.size:
                size_bytes, kind = _HEAD.unpack_from(held, at)
                if size_bytes > self._bytes_max:
                    raise FrameBroken(
                        f"a frame of {size_bytes} bytes, at most {self._bytes_max} are read"
                    )
                ends = at + _HEAD.size + size_bytes
                if len(held) < ends:
                    break
                begins, at = at + _HEAD.size, ends
                yield kind, bytes(held[begins:ends])
        finally:
            del held[:at]
