"""One name everywhere: role = file = class = log name = heading = test file; edges too."""

import ast
import configparser
import inspect
import re

import pytest

import hourhand.actors
from tests.mirror import module_of
from tests.tidy.source import ROLES, ROOT, Source, class_name, sources

BESIDE_THE_ROLES = {
    "__init__",
    "messages",
    "turn",
    "executors_of_kinds",
    "following",
    "task_parent",
    "runs",
    "unordered_tasks",
    "sweep",
    "schedule_reader",
    "persisting",
    "loading",
    "watermark",
}


def _role(name: str) -> Source:
    return Source(ROOT / "actors" / f"{name}.py")


def test_listing_the_folder_is_reading_the_design() -> None:
    """The nine roles and nothing else but messages, what one message leads to, the executors of an
    id, its port for tasks, tasks beside and behind the one at hand, kernel, model and ports, and
    the operations of the schedule: writes, loads, the watermark, the sweep of done hours, reads.
    """
    files = {path.stem for path in (ROOT / "actors").glob("*.py")}
    folders = {path.parent.name for path in (ROOT / "actors").glob("*/__init__.py")}

    assert files == ROLES.keys() | BESIDE_THE_ROLES
    assert folders == {"kernel", "model", "ports"}


@pytest.mark.parametrize("role", ROLES)
def test_a_file_holds_the_class_of_its_name(role: str) -> None:
    """It is the file's only public class, special cases of it left aside."""
    classes = [
        node.name
        for node in _role(role).tree.body
        if isinstance(node, ast.ClassDef)
        and not node.name.startswith("_")
        and class_name(role) not in {ast.unparse(base) for base in node.bases}
    ]

    # The user's class has the name, so the role that holds it is called the role.
    name = class_name(role)
    assert classes == [f"{name}Role" if name == "TaskExecutor" else name]


@pytest.mark.parametrize("role", ROLES)
def test_a_file_begins_with_what_its_role_decides(role: str) -> None:
    """The docstring names the role, what it decides, and what it never does."""
    docstring = ast.get_docstring(_role(role).tree) or ""

    assert docstring.startswith(f"{class_name(role)}: ")
    assert "ever" in docstring, "say what it never does"


@pytest.mark.parametrize("role", ROLES)
def test_imports_between_roles_are_the_supervision_tree(role: str) -> None:
    """A parent imports the children it spawns; siblings meet through refs only."""
    imported = {
        name.split(".")[2] for name in _role(role).imports if name.startswith("hourhand.actors.")
    } & ROLES.keys()

    assert imported == set(ROLES[role])


@pytest.mark.parametrize("role", ROLES)
def test_a_log_is_named_after_its_role(role: str) -> None:
    """An operator filters by the name the design uses."""
    names = re.findall(r"getLogger\(([^)]*)\)", _role(role).text)

    assert set(names) <= {f'"hourhand.{role}"'}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_has_a_test_file(role: str) -> None:
    """It mirrors the source."""
    tests = Source(ROOT / "tests" / "unit" / "actors" / f"test_{role}.py")

    assert tests.path.is_file()
    assert any(function.node.name.startswith("test_") for function in tests.functions)
    assert f"hourhand.actors.{role}" in tests.imports


def test_the_architecture_page_has_a_heading_for_each_role() -> None:
    """In the order of the tree, spelled like the class."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (\w+)\b", page, re.MULTILINE)

    wanted = [class_name(role) for role in ROLES]
    assert sorted(heading for heading in headings if heading in wanted) == sorted(wanted)


def test_the_drawing_of_the_package_is_the_tree() -> None:
    """The first thing a reader sees is true."""
    drawn: dict[str, list[str]] = {}
    path: list[tuple[int, str]] = []
    for line in (inspect.getdoc(hourhand.actors) or "").splitlines():
        found = re.match(r"^([\s│├└─]*)([A-Z][a-z]+[A-Z]\w+)", line)
        if found is None or not line.startswith(" "):
            continue
        depth, name = len(found[1]), found[2]
        drawn[name] = []
        while path and path[-1][0] >= depth:
            path.pop()
        if path:
            drawn[path[-1][1]].append(name)
        path.append((depth, name))

    wanted = {
        class_name(role): sorted(class_name(child) for child in children)
        for role, children in ROLES.items()
    }
    assert {name: sorted(children) for name, children in drawn.items()} == wanted


def test_every_source_of_the_model_has_a_test_file() -> None:
    """One test file for each source file."""
    files = {source.path.stem for source in sources("actors/model")} - {"__init__"}
    tests = {path.stem for path in (ROOT / "tests/unit/actors/model").rglob("test_*.py")}

    assert {f"test_{name}" for name in files} == tests


def test_every_folder_of_code_is_a_listed_package() -> None:
    """An unlisted folder would be missing from the wheel, and nobody would see it here."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    listed = set(config["options"]["packages"].split())

    found = {
        module_of(path.relative_to(ROOT).as_posix())
        for folder in ("actors", "hourhand", "scheduler", "schema")
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert listed == found
