"""How-to pages name files and identifiers that exist."""

import re
from typing import Final

import pytest

from support.pages import ROOT

HOWTO: Final = sorted((ROOT / "docs" / "howto").glob("*.md"))
STEP: Final = re.compile(r"^\| \d\. .* \| `([^`]+)` \|(.*)\|$", re.MULTILINE)


def steps() -> list[tuple[str, str, list[str]]]:
    """Page, path and identifiers of each step."""
    return [
        (page.name, path, re.findall(r"`([^`]+)`", names))
        for page in HOWTO
        for path, names in STEP.findall(page.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(("page", "path", "names"), steps())
def test_a_step_names_what_exists(page: str, path: str, names: list[str]) -> None:
    place = ROOT / path
    assert place.exists(), f"{page}: {path}"
    text = place.read_text(encoding="utf-8") if place.is_file() else ""
    assert [name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)] == []


def test_each_page_has_steps() -> None:
    assert {page for page, _, _ in steps()} == {page.name for page in HOWTO}
    assert len(HOWTO) == 4
