"""The files that the page of a run is made of: the library is the pinned one, and all of them are shipped."""

import hashlib
import re
import tomllib
from pathlib import Path

import pytest

from upheaval.report.page import SCRIPTS

ROOT = Path(__file__).parents[3]
BROWSER = ROOT / "harness/upheaval/report/browser"
PARTS = [
    ("upheaval", "report/browser"),
    ("upheaval", "report/templates"),
    ("upheaval", "ui/browser"),
    ("upheaval", "ui/templates"),
    ("upheaval_pipeline", "templates"),
]


def test_the_library_is_the_pinned_one_and_comes_with_its_licence() -> None:
    (pins,) = BROWSER.glob("uPlot-*.sha256")
    digests = dict(reversed(line.split()) for line in pins.read_text().splitlines())
    assert set(digests) == {path.name for path in BROWSER.glob("uPlot.*")}
    for name, digest in digests.items():
        assert hashlib.sha256((BROWSER / name).read_bytes()).hexdigest() == digest
    assert f"(v{pins.stem.removeprefix('uPlot-')})" in SCRIPTS[0]
    assert "The MIT License" in SCRIPTS[0]


@pytest.mark.parametrize(("package", "folder"), PARTS)
def test_every_file_of_a_page_is_in_the_package(package: str, folder: str) -> None:
    shipped = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    (home,) = ROOT.glob(f"*/{package}")
    assert set((home / folder).iterdir()) <= {path for pattern in shipped[package] for path in home.glob(pattern)}


def test_templates_escape_every_value_but_style_and_scripts() -> None:
    """Those are files of the package. One module makes the environment of templates, which escapes."""
    templates = [path for package, folder in PARTS for path in ROOT.glob(f"*/{package}/{folder}/*.html")]
    assert len(templates) > 6
    unescaped = {path.name: re.findall(r"\{\{[^}]*\| *safe|autoescape|Markup", path.read_text()) for path in templates}
    assert {name for name, found in unescaped.items() if found} == {"document.html"}
    assert unescaped["document.html"] == ["{{ style | safe", "{{ script | safe"]
    sources = {path: path.read_text() for folder in ("harness", "pipeline") for path in ROOT.glob(f"{folder}/**/*.py")}
    assert [path.name for path, text in sources.items() if "jinja2" in text or "Markup(" in text] == ["document.py"]
    assert [path.name for path, text in sources.items() if re.search(r"</(div|td|p|section|script|svg)>", text)] == []
