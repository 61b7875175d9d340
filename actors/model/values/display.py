"""Safe texts for foreign values in errors.

Decides length and form only. Never raises, and never returns text that UTF-8 cannot hold: a store
that refuses an error's message would cost more than the error.
"""

import logging
import re
import reprlib
import sys
import traceback
from functools import lru_cache
from types import CodeType, TracebackType

from hourhand.actors.model.values.errors import HourhandError

CHARS_MAX = 200

_UNITS_MS = (
    ("year", 31_557_600_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("min", 60_000),
    ("s", 1_000),
)

_INDENT = "  "

UNSHOWN_STACK = "its trace cannot be shown"

_STACK_HEAD = "Traceback (most recent call last):\n"
_OWN_FOLDERS = (f"{__file__.rpartition('/actors/')[0]}/",)
_PYTHON_FOLDERS = (f"{logging.__file__.rpartition('/logging/')[0]}/", "<frozen ")
_IS_INSTALLED = re.compile("/(?:site|dist)-packages/")

_FRAMES_MAX = 1_000
_shown_frames: dict[tuple[CodeType, str, int, int], str] = {}
"""Texts of frames, because the same code fails again and again: the interpreter would look for each
frame's file, and parse its line, every time."""


def shown(value: object) -> str:
    """Return a short text for a value: its own ``repr`` if that works."""
    try:
        return storable_text(reprlib.repr(value)[:CHARS_MAX])
    except Exception:  # noqa: BLE001 - showing a value is code of whoever made it
        return f"a {class_name_of(value)} that cannot be shown"


def class_name_of(value: object) -> str:
    """Return the name of a value's class, cut; a metaclass may override it."""
    try:
        return storable_text(type(value).__qualname__[:CHARS_MAX])
    except BaseException:  # noqa: BLE001 - as above
        return "class without a name"


def message_of(error: BaseException, chars_max: int = CHARS_MAX) -> str:
    """Return an error's text, cut; its ``__str__`` may be anybody's code."""
    try:
        return storable_text(str(error)[:chars_max])
    except BaseException:  # noqa: BLE001 - nothing that an error's text does may spread
        return "its message cannot be shown"


def stack_of(error: BaseException, chars_max: int) -> str:
    """Return the end of an error's trace, where the innermost frames are.

    It begins at the first frame of user code: Hourhand's frames before it are the same for every
    error. An error that Hourhand raised on purpose before any user code has no frames.
    """
    try:
        stack = _whole_stack_of(error)
    except BaseException:  # noqa: BLE001 - its notes and causes may be anybody's code
        stack = UNSHOWN_STACK
    return storable_text(stack[-chars_max:])


def has_frames(stack: str) -> bool:
    """True if a whole stack has more than the error's text."""
    return _STACK_HEAD in stack or "  + Exception Group Traceback" in stack


def _whole_stack_of(error: BaseException) -> str:
    """Return a text as ``traceback.format_exception`` makes it, from the first frame of user code
    on.
    """
    begins = _user_frame(error)
    is_chained = error.__cause__ is not None or error.__context__ is not None
    if is_chained or isinstance(error, BaseExceptionGroup) or begins is None:
        return _chained_stack_of(error, begins)
    frames: list[str] = []
    before: tuple[str, int, str] | None = None
    trace: TracebackType | None = begins
    while trace is not None:
        code = trace.tb_frame.f_code
        place = (code.co_filename, trace.tb_lineno, code.co_name)
        if place == before:
            # A recursion, of which the interpreter leaves out most frames.
            return _chained_stack_of(error, begins)
        frames.append(_shown_frame(code, trace))
        before, trace = place, trace.tb_next
    return "".join((_STACK_HEAD, *frames, *traceback.format_exception_only(error)))


def _user_frame(error: BaseException) -> TracebackType | None:
    """Return the first frame of user code; without one, the first frame of an unexpected error."""
    first = trace = error.__traceback__
    while trace is not None:
        if not _leads_to_user_code(trace.tb_frame.f_code.co_filename):
            return trace
        trace = trace.tb_next
    return None if isinstance(error, HourhandError) else first


def _chained_stack_of(error: BaseException, begins: TracebackType | None) -> str:
    told = traceback.TracebackException(type(error), error, begins, compact=True)
    behind = [each for each in (told.__cause__, told.__context__) if each is not None]
    while behind:
        each = behind.pop()
        behind += [one for one in (each.__cause__, each.__context__) if one is not None]
        own = [_leads_to_user_code(frame.filename) for frame in each.stack]
        if not all(own):
            del each.stack[: own.index(False)]
    return "".join(told.format())


@lru_cache(1_000)
def _leads_to_user_code(file: str) -> bool:
    """True if a frame of this file only leads to user code: it is Hourhand's, or Python's own."""
    return file.startswith(_OWN_FOLDERS) or (
        file.startswith(_PYTHON_FOLDERS) and not _IS_INSTALLED.search(file)
    )


def _shown_frame(code: CodeType, trace: TracebackType) -> str:
    # Code objects that differ only in their file are equal.
    place = (code, code.co_filename, trace.tb_lineno, trace.tb_lasti)
    frame = _shown_frames.get(place)
    if frame is None:
        if len(_shown_frames) >= _FRAMES_MAX:
            _shown_frames.clear()
        frame = _shown_frames[place] = "".join(traceback.format_tb(trace, limit=1))
    return frame


def log_raised(
    logger: logging.Logger, text: str, *arguments: object, level: int = logging.ERROR
) -> None:
    """Log the current error, which user code raised, with its stack from user code on.

    Its message, notes and chain are user code as well: if they raise, the text is logged alone.
    """
    try:
        # Formatted here first: a handler of the log prints an error that it cannot format, and
        # raises it again.
        raised = sys.exc_info()[1]
        assert raised is not None, "an error is at hand"
        stack = logged_stack(_whole_stack_of(raised))
        if not logger.isEnabledFor(level):
            return
        file, number, function, _ = logger.findCaller(stacklevel=2)
        line = logger.makeRecord(
            logger.name, level, file, number, text, arguments, sys.exc_info(), function
        )
        line.exc_text = stack
        logger.handle(line)
    except BaseException:  # noqa: BLE001 - as in message_of
        alone = f"{text}; the error cannot be shown"
        logger.log(level, alone, *arguments)


def duration_text(duration_ms: int) -> str:
    """Return a duration as people write it, rounded down: ``250 ms``, ``12 s``, ``5 years``."""
    for unit, unit_ms in _UNITS_MS:
        count = duration_ms // unit_ms
        if count >= 1:
            return f"{count} {unit}{'s' if unit == 'year' and count > 1 else ''}"
    return f"{duration_ms} ms"


def printable_text(text: str) -> str:
    """Return the text as one line without control codes: unprintable characters are escaped."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def printable_lines(text: str) -> str:
    """Return the text with its line feeds, and all other unprintable characters escaped."""
    return "\n".join(map(printable_text, text.split("\n")))


def logged_stack(stack: str) -> str:
    """Return a stack for the log: each of its lines is indented.

    A message or a note with a line in the form of the log's is then visibly a part of the stack. An
    indented stack is returned unchanged.
    """
    lines = printable_lines(stack.rstrip("\n")).split("\n")
    if all(line.startswith(_INDENT) for line in lines):
        return "\n".join(lines)
    return "\n".join(f"{_INDENT}{line}" for line in lines)


def storable_text(text: str) -> str:
    """Return the text with lone surrogates, which UTF-8 cannot hold, written as escapes."""
    return str.encode(text, "utf-8", "backslashreplace").decode()
