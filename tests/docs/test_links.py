"""Links on all pages lead to files and headings that exist."""

import re
from functools import cache
from typing import Final

import pytest

from support.pages import PAGES, ROOT

LINK: Final = re.compile(r"(?<!`)\[[^\]]*\]\(([^)\s]+)\)")


def without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchor_of(heading: str) -> str:
    """As GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@cache
def anchors(page: str) -> frozenset[str]:
    text = without_blocks((ROOT / page).read_text(encoding="utf-8"))
    return frozenset(anchor_of(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE))


@pytest.mark.parametrize("page", [*PAGES, "CHANGELOG.md"])
def test_links_lead_somewhere(page: str) -> None:
    text = without_blocks((ROOT / page).read_text(encoding="utf-8"))
    dead = []
    for target in LINK.findall(text):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        place = (ROOT / page).parent / path if path else ROOT / page
        if not place.exists() or (anchor and anchor not in anchors(str(place.resolve().relative_to(ROOT)))):
            dead.append(target)
    assert dead == []


@pytest.mark.parametrize("page", PAGES)
def test_images_for_links_between_containers_are_built(page: str) -> None:
    """The fixture `chaos` and the demo put proxies between members, which are containers of their own."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert re.findall(r"upheaval images build node(?!-test| toxiproxy).*", text) == []


def test_headings_become_anchors() -> None:
    assert anchor_of("What would be noticed, what not, and why not") == "what-would-be-noticed-what-not-and-why-not"
    assert anchor_of("`seal.json`") == "sealjson"
