"""The dashboard's files: served as what they are, complete, and of nobody else's making."""

import re
from functools import cache
from pathlib import Path

import pytest
from fastapi import FastAPI

from hourhand.scheduler.admin.pages import FOLDER, TYPES
from tests.unit.scheduler.admin.test_access import guarded
from tests.unit.scheduler.admin.world import Asking, World

OURS = sorted(
    path
    for path in FOLDER.rglob("*")
    if path.is_file() and "vendor" not in path.relative_to(FOLDER).parts
)
SERVED = sorted(path for path in FOLDER.rglob("*") if path.suffix in TYPES)
SCRIPTS = [path for path in OURS if path.suffix == ".js"]
LINES_MAX = 350
IMPORT = re.compile(r'from "(\.[^"]+)"')
NAMESPACE = "http://www.w3.org/2000/svg"
"""An identifier, which nobody asks for."""


def name_of(path: Path) -> str:
    """Return a file's path below the dashboard."""
    return path.relative_to(FOLDER).as_posix()


@cache
def served() -> Asking:
    """Return a way to ask for pages instead of the API's paths; all tests ask one installation."""
    return Asking(World().app, "http://localhost")


@pytest.mark.parametrize("path", SERVED, ids=name_of)
def test_a_file_is_served_as_what_it_is(path: Path) -> None:
    """Browsers are told not to guess; an unchanged file is not sent twice."""
    asking = served()
    answer = asking.get(f"/{name_of(path)}") if path.name != "index.html" else asking.get("/")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == TYPES[path.suffix]
    assert answer.content == path.read_bytes()
    if len(path.relative_to(FOLDER).parts) > 1:
        known = {"If-None-Match": answer.headers["etag"]}
        assert asking.get(f"/{name_of(path)}", headers=known).status_code == 304


def test_the_page_answers_what_only_asks_whether_it_is_there() -> None:
    """Load balancers and monitors of uptime ask with HEAD."""
    answer = served().request("HEAD", "/")

    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("path", ["/", "/js/main.js", "/nowhere", "/api/v1/status"])
def test_every_answer_forbids_what_the_dashboard_does_not_need(path: str) -> None:
    """No script but its own files, no other host, no frame, no form."""
    headers = served().get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))

    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert headers["cross-origin-opener-policy"] == "same-origin"


def test_pages_are_asked_for_again_and_answers_are_not_kept() -> None:
    """Nobody runs yesterday's scripts, and no cache holds the data of tasks."""
    asking = served()
    kept = {path: asking.get(path).headers["cache-control"] for path in ("/", "/css/tokens.css")}

    assert set(kept.values()) == {"no-cache"}
    assert asking.get("/api/v1/status").headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path",
    ["/js/../../app.py", "/js/%2e%2e/%2e%2e/app.py", "/vendor/", "/js", "/app.py", "/js/%00"],
)
def test_nothing_else_is_served(path: str) -> None:
    """Neither the package's code nor a list of what there is."""
    answer = served().get(path)

    assert answer.status_code == 404
    assert answer.json()["code"] == "no-such-path"


def test_pages_need_no_token_and_what_they_show_does() -> None:
    """They hold no data; somebody without a token is asked for one by the page."""
    asking = Asking(guarded().app, "http://localhost")

    assert asking.get("/").status_code == 200
    assert asking.get("/js/main.js").status_code == 200
    assert asking.get("/api/v1/whoami").status_code == 401


def test_an_app_that_mounts_it_serves_the_pages_too() -> None:
    """Under its own path, because no address in them begins with a slash."""
    outer = FastAPI()
    outer.mount("/deep/hourhand", World().app)
    asking = Asking(outer, "http://localhost/deep/hourhand")

    assert asking.get("/").status_code == 200
    assert asking.get("/js/main.js").headers["content-type"] == TYPES[".js"]
    assert asking.get("/api/v1/status").status_code == 200
    page = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r'(?:href|src)="/', page)


def test_the_page_names_files_that_are_there_and_nothing_inline() -> None:
    """The content security policy would refuse it."""
    page = (FOLDER / "index.html").read_text(encoding="utf-8")
    named = re.findall(r'(?:href|src)="([^"#]+)"', page)

    assert [each for each in named if not (FOLDER / each).is_file()] == []
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page)


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_no_file_names_another_host(path: Path) -> None:
    """Nothing is fetched from elsewhere at run time."""
    text = path.read_text(encoding="utf-8").replace(NAMESPACE, "")

    assert re.findall(r"(?:https?:)?//[\w-]+\.\w+", text) == []


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_a_script_says_what_it_decides_and_is_short(path: Path) -> None:
    """As the modules of Python do; what it imports is there."""
    text = path.read_text(encoding="utf-8")

    assert text.startswith("/**"), "it begins with what it decides"
    assert len(text.splitlines()) <= LINES_MAX
    missing = [each for each in IMPORT.findall(text) if not (path.parent / each).is_file()]
    assert missing == []


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_no_script_makes_markup_of_text(path: Path) -> None:
    """What a task, an error or a header says stays text, whatever is in it."""
    text = path.read_text(encoding="utf-8")
    dangerous = r"innerHTML|outerHTML\s*=|insertAdjacentHTML|document\.write|\beval\(|new Function"

    assert re.findall(dangerous, text) == []


def test_every_script_is_used() -> None:
    """From the page's one on; every screen is listed."""
    seen: set[Path] = set()
    left = [FOLDER.resolve() / "js/main.js"]
    while left:
        path = left.pop()
        if path not in seen:
            seen.add(path)
            found = IMPORT.findall(path.read_text(encoding="utf-8"))
            left += [(path.parent / each).resolve() for each in found]

    assert sorted(each.relative_to(FOLDER.resolve()).as_posix() for each in seen) == sorted(
        map(name_of, SCRIPTS)
    )


def test_what_is_not_ours_has_its_licence() -> None:
    """And the version and the place it comes from."""
    told = (FOLDER / "vendor/README.md").read_text(encoding="utf-8")

    for folder in (path for path in (FOLDER / "vendor").iterdir() if path.is_dir()):
        assert (folder / "LICENSE").read_text(encoding="utf-8")
        assert f"| `{folder.name}` |" in told
