"""Messages for values that pydantic refused.

Decides the text of a problem: the place, the need, and the given value. Pydantic decides the
refusal. Its own sentences speak of inputs and of its types, so they are not shown; only the text of
a validator of ours or of a user's is used unchanged.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NotRequired, TypedDict

from hourhand.actors.model.values.display import message_of, shown
from hourhand.actors.model.values.suggestion import did_you_mean

PROBLEMS_MAX = 5


class RefusedValue(TypedDict):
    """Pydantic's description of one refused value, from ``ValidationError.errors()``."""

    type: str
    loc: tuple[int | str, ...]
    msg: str
    input: object
    ctx: NotRequired[dict[str, object]]


_WHERE_CHARS_MAX = 80
_SAID_CHARS_MAX = 1_000

_NEEDED = {
    "arguments_type": "a list or a dictionary of arguments",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "bytes_invalid_encoding": "bytes in the right encoding",
    "bytes_too_long": "at most {max_length} bytes",
    "bytes_too_short": "at least {min_length} bytes",
    "bytes_type": "a value of bytes",
    "callable_type": "a function",
    "complex_str_parsing": "a complex number",
    "complex_type": "a complex number",
    "counter_type": "a counter",
    "dataclass_exact_type": "{class_name}",
    "dataclass_type": "{class_name}, or a dictionary of its fields,",
    "date_from_datetime_inexact": "a date without a time of day",
    "date_from_datetime_parsing": "a date such as 2026-01-31",
    "date_future": "a date in the future",
    "date_parsing": "a date such as 2026-01-31",
    "date_past": "a date in the past",
    "date_type": "a date",
    "datetime_from_date_parsing": "a time such as 2026-01-31T09:00:00Z",
    "datetime_future": "a time in the future",
    "datetime_object_invalid": "a datetime that can be read",
    "datetime_parsing": "a time such as 2026-01-31T09:00:00Z",
    "datetime_past": "a time in the past",
    "datetime_type": "a datetime",
    "decimal_max_digits": "a number of at most {max_digits} digits",
    "decimal_max_places": "a number of at most {decimal_places} decimal places",
    "decimal_parsing": "a decimal number",
    "decimal_type": "a decimal number",
    "decimal_whole_digits": "a number of at most {whole_digits} digits before the point",
    "deque_type": "a deque",
    "dict_type": "a dictionary",
    "ellipsis_error": "an ellipsis",
    "enum": "{expected}",
    "finite_number": "a number that is not infinite or NaN",
    "float_parsing": "a number",
    "float_type": "a number",
    "fraction_parsing": "a fraction",
    "fraction_type": "a fraction",
    "frozen_dict_type": "a frozen dictionary",
    "frozen_set_type": "a frozen set",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of fewer digits",
    "int_type": "a whole number",
    "invalid-json-value": "a JSON value",
    "ip_any_address": "an address of IPv4 or IPv6",
    "ip_any_interface": "an interface of IPv4 or IPv6",
    "ip_any_network": "a network of IPv4 or IPv6",
    "is_instance_of": "{class}",
    "is_subclass_of": "a class derived from {class}",
    "iterable_type": "something that can be iterated",
    "json_type": "JSON as a text",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "mapping_type": "a dictionary",
    "missing_sentinel_error": "no value",
    "model_attributes_type": "a dictionary, or an object with the fields,",
    "model_type": "{class_name}, or a dictionary of its fields,",
    "multiple_of": "a multiple of {multiple_of}",
    "named_tuple_type": "{class_name}",
    "needs_python_object": "a value of a Python program",
    "none_required": "None, in JSON null,",
    "ordered_dict_type": "a dictionary",
    "path_exists": "a path that is not there yet",
    "path_not_directory": "the path of a folder",
    "path_not_file": "the path of a file",
    "path_type": "a path",
    "pattern_regex": "a regular expression",
    "pattern_type": "a regular expression",
    "sequence_str": "a list, and not a text,",
    "set_item_not_hashable": "a set of values that can be hashed",
    "set_type": "a set",
    "string_not_ascii": "a text of ASCII characters alone",
    "string_pattern_mismatch": "a text that matches {pattern}",
    "string_too_long": "a text of at most {max_length} characters",
    "string_too_short": "a text of at least {min_length} characters",
    "string_type": "a text",
    "string_unicode": "a text in UTF-8",
    "time_delta_parsing": "a duration such as PT1H30M",
    "time_delta_type": "a timedelta",
    "time_parsing": "a time of day such as 09:30:00",
    "time_type": "a time of day",
    "timezone_aware": "a time with a time zone",
    "timezone_naive": "a time without a time zone",
    "timezone_offset": "a time whose zone is {tz_expected} seconds from UTC",
    "too_long": "at most {max_length} elements",
    "too_short": "at least {min_length} elements",
    "tuple_type": "a tuple or list",
    "union_tag_invalid": "{expected_tags} in {discriminator}",
    "union_tag_not_found": "a value of {discriminator}",
    "url_parsing": "a URL",
    "url_scheme": "a URL that begins with {expected_schemes}",
    "url_syntax_violation": "a URL",
    "url_too_long": "a URL of at most {max_length} characters",
    "url_type": "a URL",
    "uuid_parsing": "a UUID",
    "uuid_type": "a UUID",
    "uuid_version": "a UUID of version {expected_version}",
    "zoneinfo_str": "the name of a time zone",
}
"""The need by type of problem; a name in braces is from the problem's context."""
_PLURAL = re.compile(r"at (?:least|most) (?!1 )\S+ (?:bytes|elements)")
_SHORT = {"string_too_short": "a text", "too_short": "a value"}
_HINTS = {"timezone_aware": " (write datetime.now(UTC), not a naive datetime)"}

_SAID = {
    "assertion_error": "it does not fit",
    "default_factory_not_called": "its default is made of a field that is wrong as well",
    "extra_forbidden": "there is no such name here",
    "frozen_field": "it cannot be changed",
    "frozen_instance": "it cannot be changed",
    "get_attribute_error": "it cannot be read: {error}",
    "invalid_key": "a name is needed that is a text",
    "iteration_error": "it cannot be iterated: {error}",
    "json_invalid": "this is not JSON: {error}",
    "missing": "it is missing",
    "missing_argument": "it is missing",
    "missing_keyword_only_argument": "it is missing",
    "missing_positional_only_argument": "it is missing",
    "multiple_argument_values": "it is given twice",
    "no_such_attribute": "there is no such name here",
    "recursion_depth_exceeded": "it is nested too deeply",
    "recursion_loop": "it holds itself",
    "unexpected_keyword_argument": "there is no such name here",
    "unexpected_positional_argument": "there is no such argument",
    "value_error": "it does not fit",
}
"""The sentence by type of problem, if it does not state a need."""
_OF_A_VALIDATOR = frozenset({"value_error", "assertion_error"})
_VALUELESS = frozenset({kind for kind, text in _SAID.items() if text == "it is missing"})
"""Problems whose value is the object in which the name is missing."""
_UNKNOWN = frozenset({kind for kind, text in _SAID.items() if "no such name" in text})

KINDS_KNOWN = frozenset(_NEEDED) | frozenset(_SAID)


def problem_text(
    problem: RefusedValue,
    *,
    nowhere: str = "",
    names: Iterable[str] = (),
    shows_value: bool = True,
    whole: object = None,
) -> str:
    """Return one problem in a sentence: the place, the need, and the given value.

    ``nowhere`` stands for the place of a problem of the whole; ``names`` are known names to suggest
    for an unknown one; ``whole`` is the judged value, if available.
    """
    where = _place_of(problem, whole)[:_WHERE_CHARS_MAX] or nowhere
    said = _words_of(problem)
    if problem["type"] in _UNKNOWN and problem["loc"]:
        said += did_you_mean(str(problem["loc"][-1]), names)
    elif problem["type"] in {"literal_error", "enum"}:
        choices = re.findall(r"'([^']*)'", str(_context(problem).get("expected", "")))
        said += did_you_mean(problem["input"], choices)
    told = f"{where}: {said}" if where else said
    if not shows_value or problem["type"] in _VALUELESS:
        return told
    # Cut after a few levels: the value may be endless.
    joint = " got" if told.endswith("?") else ", got"
    return f"{told}{joint} {shown(problem['input'])}"


def problems_text(problems: Sequence[RefusedValue], *, nowhere: str = "") -> str:
    """Return the first few problems of one value, one after another."""
    assert problems, "what is refused is refused for a reason"
    return "; ".join(problem_text(each, nowhere=nowhere) for each in problems[:PROBLEMS_MAX])


def _place_of(problem: RefusedValue, whole: object) -> str:
    """Return the names that lead to a value, or say that a name is wrong.

    Pydantic also names the member of a union that it tried, which is not in the value: ``whole``
    shows that.
    """
    parts, suffix = list(problem["loc"]), ""
    if parts and parts[-1] == "[key]":
        parts, suffix = parts[:-1], " as a name"
    if whole is not None and parts and problem["type"] not in _VALUELESS:
        try:
            # For a wrong name the value is not judged: pydantic shows the name as a text.
            parts = [*_parts_in(whole, parts, len(parts) - 1 if suffix else len(parts))]
        except Exception:  # noqa: BLE001 - to compare the names of a dictionary may be user code
            parts = list(problem["loc"])
    return ".".join(map(str, parts)) + suffix


def _parts_in(whole: object, parts: Sequence[int | str], judged: int) -> Iterator[int | str]:
    """Yield those of the first ``judged`` parts that exist in the value, and all later ones."""
    value = whole
    for part in parts[:judged]:
        if type(value) is dict and part in value:  # noqa: SIM114 - types need two branches
            value = value[part]
            yield part
        elif isinstance(value, list | tuple) and isinstance(part, int) and part < len(value):
            value = value[part]
            yield part
    yield from parts[judged:]


def _words_of(problem: RefusedValue) -> str:
    kind, context = problem["type"], _context(problem)
    if kind in _OF_A_VALIDATOR and isinstance(raised := context.get("error"), BaseException):
        return message_of(raised, _SAID_CHARS_MAX) or _SAID[kind]
    if kind in _OF_A_VALIDATOR or kind not in KINDS_KNOWN:
        # The text of the type: of a user's validator, or of a type of pydantic's.
        return str(problem["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    values = {
        name: message_of(raised) if isinstance(raised, BaseException) else raised
        for name, raised in context.items()
    }
    if kind in _SAID:
        return _SAID[kind].format_map(values)
    if kind in _SHORT and values.get("min_length") == 1:
        return f"{_SHORT[kind]} that is not empty is needed"
    needed = _NEEDED[kind].format_map(values)
    verb = "are" if _PLURAL.match(needed) else "is"
    return f"{needed} {verb} needed{_HINTS.get(kind, '')}"


def _context(problem: RefusedValue) -> dict[str, object]:
    return dict(problem.get("ctx") or {})
