"""What axe-core says of the page in a browser: rules of accessibility that it breaks, and contrasts that are open."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from support.browser import Browser

Rule = dict[str, Any]
# What is scrolled or folded out of sight has no ground that could be measured, and of pictures axe measures none.
_OPEN: Final = """
for (const each of document.querySelectorAll("details")) each.open = true;
for (const each of document.querySelectorAll(".scrolled, #messages, section")) {
  each.style.maxHeight = "none";
  each.style.width = "max-content";
  each.style.minWidth = "100%";
}
"""
_RUN: Final = """
axe.run(document, {resultTypes: ["STATE"]}).then(({STATE}) => STATE.flatMap(({id, impact, nodes}) =>
  nodes.filter(({target}) => !document.querySelector(target.at(-1)).closest("svg") || "STATE" === "violations").map(
    ({target, any}) => ({id, impact, target: target.join(" "), why: any.map(each => each.message).join(" ")}))))
"""


@cache
def _source() -> str:
    """The script, which a Python package carries: it is not imported, as that takes playwright."""
    spec = find_spec("axe_playwright_python")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "axe.min.js").read_text(encoding="utf-8")


def violations(browser: Browser) -> list[Rule]:
    """Those that axe calls serious or critical."""
    return [rule for rule in _rules(browser, "violations") if rule["impact"] in ("serious", "critical")]


def undecided(browser: Browser) -> list[Rule]:
    """Texts, outside of pictures, whose contrast axe could not decide. Opens and widens what is out of sight."""
    browser.value(f"{_OPEN}; 0")
    return [rule for rule in _rules(browser, "incomplete") if rule["id"] == "color-contrast"]


def _rules(browser: Browser, state: str) -> list[Rule]:
    browser.value(f"{_source()}; 0")
    rules: list[Rule] = browser.value(_RUN.replace("STATE", state))
    return rules
