"""The site: `make docs` builds it into docs/_build/html, and every warning is an error.

Links to files outside of docs lead to `SOURCE_URL`, where that is set, and are plain text otherwise.
"""

import os
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
SOURCE_URL = os.environ.get("SOURCE_URL", "").rstrip("/")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)\s]+)\)")

project = "Upheaval"
author = "The Upheaval authors"
extensions = ["myst_parser"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "Upheaval"
html_extra_path = ["llms.txt"]
myst_heading_anchors = 4
# Scenarios and mermaid have no lexer.
suppress_warnings = ["misc.highlighting_failure"]


def _lead_outside(_: Any, name: str, source: list[str]) -> None:
    folder = (DOCS / f"{name}.md").parent

    def replaced(match: re.Match[str]) -> str:
        text, target = match.groups()
        place = (folder / target.partition("#")[0]).resolve()
        if place.is_relative_to(DOCS):
            return match[0]
        return f"[{text}]({SOURCE_URL}/{place.relative_to(DOCS.parent)})" if SOURCE_URL else text

    source[0] = LINK.sub(replaced, source[0])


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _lead_outside)
