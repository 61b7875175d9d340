"""How the site is built from docs/: ``make docs``.

Every page is Markdown that a repository shows as well.  A link that leads nowhere, a page that no
table of contents names and a heading out of order fail the build.  Beside each page stands its
Markdown, and ``llms.txt`` lists these for programs that read (https://llmstxt.org).
"""

import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]

project = "Hourhand"
_metadata = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
release = _metadata["version"]
extensions = ["myst_parser"]
myst_heading_anchors = 4
nitpicky = True
suppress_warnings = ["toc.empty_glob"]

html_theme = "furo"
html_title = f"Hourhand {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
# No date and no machine: the same pages give the same site.
html_last_updated_fmt = None
html_show_sphinx = False


def setup(app: Sphinx) -> None:
    """Have the Markdown of the pages written when the site is built; called by Sphinx."""
    app.connect("build-finished", _write_markdown)


def _write_markdown(app: Sphinx, failed: Exception | None) -> None:
    if failed is not None or app.builder.name != "html":
        return
    lines = [f"# {project}", "", f"> {_metadata['description']}", "", "## Pages", ""]
    for name in _in_order(app, app.config.root_doc):
        raw = app.outdir / f"{name}.md"
        raw.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(app.env.doc2path(name), raw)
        lines.append(f"- [{app.env.titles[name].astext()}]({name}.md)")
    (app.outdir / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _in_order(app: Sphinx, name: str) -> Iterator[str]:
    """Yield a page and those below it in the table of contents."""
    yield name
    for below in app.env.toctree_includes.get(name, ()):
        yield from _in_order(app, below)
