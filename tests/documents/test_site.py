"""The site that `make docs` builds: every page, no broken link, nothing from the network."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.source import ROOT, documents, report


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; a warning of Sphinx fails it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "sphinx",
            "-q",
            "-W",
            "--keep-going",
            "-b",
            "html",
            "-d",
            folder / "doctrees",
            ROOT / "docs",
            folder / "html",
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.mark.slow
def test_every_page_is_on_the_site(site: Path) -> None:
    """And can be found: Sphinx refuses one that no table of contents names."""
    pages = [page.relative_to(ROOT / "docs") for page in documents() if "docs" in page.parts]
    report(page.as_posix() for page in pages if not (site / page.with_suffix(".html")).is_file())
    assert pages


def test_each_page_is_there_as_markdown_too(site: Path) -> None:
    """As it was written, once in the list for programs that read."""
    pages = {
        page.relative_to(ROOT / "docs").as_posix(): page.read_text(encoding="utf-8")
        for page in documents()
        if page.is_relative_to(ROOT / "docs")
    }
    listed = (site / "llms.txt").read_text(encoding="utf-8")
    links = re.findall(r"^- \[.+\]\((.+)\)$", listed, re.MULTILINE)

    assert listed.startswith("# Hourhand\n\n> ")
    assert links[0] == "index.md"
    assert sorted(links) == sorted(pages)
    assert {name: (site / name).read_text(encoding="utf-8") for name in links} == pages


def test_the_site_needs_no_network(site: Path) -> None:
    """Scripts, styles, fonts and pictures are its own, so it can be read from a folder."""
    loaded = re.compile(
        r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=\"(?:https?:)?//[^\"]*\""
    )
    fetched = re.compile(r"(?:@import|url\()\s*[\"']?(?:https?:)?//")
    report(
        f"{path.relative_to(site)}: {found[0]}"
        for pattern, kind in ((loaded, "*.html"), (fetched, "*.css"))
        for path in site.rglob(kind)
        if (found := pattern.search(path.read_text(encoding="utf-8")))
    )


def test_drawings_are_on_the_site(site: Path) -> None:
    """As pictures that scale."""
    page = (site / "concepts.html").read_text(encoding="utf-8")
    shown = re.findall(r'src="(_images/\w+\.svg)"', page)

    assert len(shown) == 3
    assert all((site / name).is_file() for name in shown)
