"""Configuration of Sphinx for the documentation of Steady Queue: `make docs`."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).parent.parent
#: Read, not imported: the documentation is built without Django's settings.
_VERSION = re.search(r'^__version__ = "(.+)"$', (_ROOT / "steady_queue" / "__init__.py").read_text(), re.MULTILINE)
assert _VERSION is not None

project = "Steady Queue"
author = "Steady Queue contributors"
project_copyright = author
version = release = _VERSION[1]

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
root_doc = "index"

# Every link between pages must lead to a page and a heading that exist: a link that does not is a warning, and `make
# docs` takes warnings for errors.
nitpicky = True
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist", "smartquotes"]
myst_heading_anchors = 3
suppress_warnings: list[str] = []

language = "en"
pygments_style = "default"
pygments_dark_style = "monokai"

# The theme uses the fonts of the reader's system, and its scripts are part of the output: no page loads anything from
# another host.
html_theme = "furo"
html_title = f"Steady Queue {release}"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
