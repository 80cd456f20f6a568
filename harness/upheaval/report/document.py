"""What every HTML page of ours is made of: templates, in which every value is escaped, and one document that needs
nothing else.

A content security policy forbids every fetch, and every script that is not shipped. Style and scripts are files of the
folder `browser`; the page holds as JSON what its scripts show.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_HERE: Final = Path(__file__).parent
BROWSER: Final = _HERE / "browser"
"""The folder of style and scripts."""
_NO_FILTERS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType({})


def shipped(*names: str) -> str:
    """The text of files of the folder `browser`, one after the other."""
    return "\n".join((BROWSER / name).read_text(encoding="utf-8") for name in names)


STYLE: Final = shipped("page.css")
LIBRARY: Final = f"/* {shipped('uPlot.LICENSE')} */\n{shipped('uPlot.iife.min.js')}"
"""uPlot, which draws axes: the first script of each page."""


def environment(folder: Path, filters: Mapping[str, Callable[..., Any]] = _NO_FILTERS) -> Any:
    """A Jinja environment for the templates of a folder, which may extend and import those of this package.

    A name that a template does not have is an error.
    """
    made = Environment(
        loader=FileSystemLoader((folder, _HERE / "templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(filters)
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return made


def document(templates: Any, template: str, data: Any, scripts: Sequence[str], **values: Any) -> str:
    """A page by one of the templates, which extends `document.html`.

    `data` is what the scripts find as JSON in the element `data`, `values` what the template shows.
    """
    style = shipped("uPlot.min.css") + STYLE
    text: str = templates.get_template(template).render(
        values, data=data, scripts=scripts, policy=_policy(scripts), style=style
    )
    return text


def _policy(scripts: Sequence[str]) -> str:
    digests = (base64.b64encode(sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
