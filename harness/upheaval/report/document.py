"""What every HTML page of ours is made of: one document that needs nothing else, its style, its scripts, its tables.

A content security policy forbids every fetch, and every script that is not shipped. Style and scripts are files of the
folder `browser`; the page holds as JSON what its scripts show.
"""

import base64
import json
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any, Final

_BROWSER: Final = Path(__file__).parent / "browser"


def shipped(*names: str) -> str:
    """The text of files of the folder `browser`, one after the other."""
    return "\n".join((_BROWSER / name).read_text(encoding="utf-8") for name in names)


STYLE: Final = shipped("page.css")
LIBRARY: Final = f"/* {shipped('uPlot.LICENSE')} */\n{shipped('uPlot.iife.min.js')}"
"""uPlot, which draws axes: the first script of each page."""


def document(title: str, main: str, data: Any, scripts: Sequence[str]) -> str:
    """A page: `main` is its HTML, `data` what the scripts find as JSON in the element `data`."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(_policy(scripts))}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{shipped("uPlot.min.css")}{STYLE}</style>
</head>
<body>
<main>
{main}
</main>
<script type="application/json" id="data">{_to_script_text(data)}</script>
{"".join(f"<script>{script}</script>" for script in scripts)}
</body>
</html>
"""


def section(title: str, content: str) -> str:
    """A part of a page, with its title in small letters as its anchor; `content` is HTML."""
    anchor = title.lower().replace(" ", "-")
    return f'<section id="{escape(anchor)}">\n<h2>{escape(title)}</h2>\n{content}\n</section>'


def table(heads: Sequence[str], rows: Sequence[str], style: str = "") -> str:
    """`rows` are HTML, each a whole row or several. A keyboard can scroll what is wider than the page."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    whole = f'<table class="{style}"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return f'<div class="scrolled" tabindex="0" role="region" aria-label="{escape(", ".join(heads))}">{whole}</div>'


def _policy(scripts: Sequence[str]) -> str:
    digests = (base64.b64encode(sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def _to_script_text(data: Any) -> str:
    """JSON that cannot end the element that holds it."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
