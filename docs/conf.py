"""How the site is built from docs/: ``make docs``.

Every page is Markdown that a repository shows as well.  A link that leads nowhere, a page that no
table of contents names and a heading out of order fail the build.
"""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]

project = "Hourhand"
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
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
