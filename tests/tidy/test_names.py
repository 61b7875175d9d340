"""Names: the grammar of actors/messages.py, and one class name for one thing.

A request is verb and nouns (``PersistTasks``), its answer nouns and participle
(``TasksPersisted``), a refusal has ``Not`` before the participle (``TasksNotPersisted``).
"""

import ast
import re
from collections import defaultdict

from hourhand.scheduler.adapters.telemetry import roles_told
from tests.tidy.source import ROOT, Source, report, sources

VERBS = {
    "Adopt": "Adopted",
    "Assign": "Assigned",
    "Attempt": "Attempted",
    "Await": "Awaited",
    "Catch": "CaughtUp",
    "Change": "Changed",
    "Check": "Checked",
    "Close": "Closed",
    "Drain": "Drained",
    "Execute": "Executed",
    "Find": "Found",
    "Forget": "Forgotten",
    "Hold": "Held",
    "Keep": "Kept",
    "Load": "Loaded",
    "Lower": "Lowered",
    "Measure": "Measured",
    "Meet": "Met",
    "Pause": "Paused",
    "Persist": "Persisted",
    "Postpone": "Postponed",
    "Record": "Recorded",
    "Release": "Released",
    "Return": "Returned",
    "Revoke": "Revoked",
    "Schedule": "Scheduled",
    "Shrink": "Shrunk",
    "Spill": "Spilled",
    "Start": "Started",
    "Stop": "Stopped",
    "Update": "Updated",
    "Withdraw": "Withdrawn",
}
"""Every verb of the conversation with its participle; a new one is added here on purpose."""

_MESSAGES = Source(ROOT / "actors" / "messages.py")
_REQUEST = re.compile(rf"({'|'.join(VERBS)})(([A-Z][a-z]+)+)")
_ANSWER = re.compile(rf"(([A-Z][a-z]+)+?)(Not)?({'|'.join(VERBS.values())})")


def _classes() -> list[ast.ClassDef]:
    return [node for node in _MESSAGES.tree.body if isinstance(node, ast.ClassDef)]


def _is_message(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base) == "msgspec.Struct" for base in node.bases)


def _parts() -> set[str]:
    """Names that occur in the fields of a message: what messages are made of."""
    return {
        name.id
        for node in _classes()
        for field in node.body
        if isinstance(field, ast.AnnAssign)
        for name in ast.walk(field.annotation)
        if isinstance(name, ast.Name)
    }


def test_every_message_is_a_request_or_an_answer() -> None:
    """What is neither is part of a message."""
    parts = _parts()
    strange = [
        node.name
        for node in _classes()
        if not _REQUEST.fullmatch(node.name)
        and not _ANSWER.fullmatch(node.name)
        and node.name not in parts
    ]

    assert not strange, f"{strange}: VerbNouns, NounsVerbed or NounsNotVerbed; verbs are listed"


def test_messages_are_frozen_structs() -> None:
    """They cross threads, and making a frozen dataclass costs eight times as much."""
    for node in _classes():
        if _is_message(node):
            settings = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            assert settings.get("frozen") == "True", node.name


def test_messages_carry_no_list_and_no_dict() -> None:
    """A frozen message with a list in it is not frozen."""
    for node in _classes():
        for field in node.body:
            if isinstance(field, ast.AnnAssign):
                annotation = ast.unparse(field.annotation)
                assert not re.search(r"\b(list|dict|set)\[", annotation), (node.name, annotation)


def test_an_answer_follows_its_request() -> None:
    """The file is in the order of a task's life."""
    places = {node.name: node.lineno for node in _classes()}
    for verb, participle in VERBS.items():
        for name, line in places.items():
            if (request := _REQUEST.fullmatch(name)) and request[1] == verb:
                for answer in (f"{request[2]}{participle}", f"{request[2]}Not{participle}"):
                    assert places.get(answer, line + 1) > line, f"{answer} stands before {name}"


def test_every_message_is_described() -> None:
    """The docstring says who tells it to whom."""
    for node in _classes():
        assert ast.get_docstring(node), node.name


def _matched_names() -> set[str]:
    """Classes that stand in a ``case`` or are asked for by ``isinstance``."""
    names: set[str] = set()
    for source in sources("actors", "hourhand", "scheduler"):
        for node in ast.walk(source.tree):
            match node:
                case ast.MatchClass(cls=ast.Name(id=name)):
                    names.add(name)
                case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
                    names.update(kind.id for kind in ast.walk(kinds) if isinstance(kind, ast.Name))
                case _:
                    pass
    return names


def _built_names() -> set[str]:
    return {
        name for source in sources("actors", "hourhand", "scheduler") for _, name in source.calls()
    }


def test_every_message_is_sent_and_received() -> None:
    """A message nobody builds or nobody matches is dead."""
    parts, matched, built = _parts(), _matched_names(), _built_names()
    for node in _classes():
        if _is_message(node) and node.name not in parts:
            assert f"hourhand.actors.messages.{node.name}" in built, (
                f"{node.name} is sent by nobody"
            )
            assert node.name in matched, f"{node.name} is matched nowhere"


def _loggers() -> list[tuple[str, str]]:
    """Return place and name of each logger: a constant's value, else the expression."""
    found = [(f"role {role}", f"hourhand.{role}") for role in roles_told()]
    for source in sources("actors", "hourhand", "scheduler"):
        for node in ast.walk(source.tree):
            match node:
                case ast.Call(func=ast.Attribute(attr="getLogger"), args=[name, *_]):
                    text = name.value if isinstance(name, ast.Constant) else ast.unparse(name)
                    found.append((f"{source.name}:{node.lineno}", str(text)))
                case _:
                    pass
    return found


_OTHERS_LOGGERS = {"concurrent.futures", "f'hourhand.{role}'", "line.name", "name"}
"""The standard library's, the roles' one, whose names are looked at by themselves, and those of
lines of a process, which are the user's."""


def test_loggers_are_told_apart_by_more_than_case() -> None:
    """All stand below ``hourhand``, in lower case, so that one setting reaches them all."""
    loggers = [(place, name) for place, name in _loggers() if name not in _OTHERS_LOGGERS]

    report(
        f"{place}: logger {name!r}: write 'hourhand.' and the role or adapter, in lower case"
        for place, name in loggers
        if not re.fullmatch(r"hourhand(\.[a-z]+(_[a-z]+)*)*", name)
    )
    joined = {name.replace("_", "") for _, name in loggers}
    assert len(joined) == len({name for _, name in loggers}), "two differ by an underscore alone"


def test_a_class_name_stands_in_one_file() -> None:
    """Who searches for a name finds one thing; a leading underscore makes no other name."""
    files: defaultdict[str, set[str]] = defaultdict(set)
    for source in sources("actors", "hourhand", "scheduler"):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                files[node.name.lstrip("_")].add(source.name)

    shared = {name: sorted(found) for name, found in files.items() if len(found) > 1}
    report(f"{name} stands in {', '.join(found)}" for name, found in shared.items())
