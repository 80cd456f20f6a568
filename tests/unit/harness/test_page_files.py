"""The files that the page of a run is made of: the library is the pinned one, and all of them are shipped."""

import hashlib
import tomllib
from pathlib import Path

from upheaval.report import SCRIPTS, page as page_of_run

ROOT = Path(__file__).parents[3]
BROWSER = ROOT / "harness/upheaval/report/browser"


def test_the_library_is_the_pinned_one_and_comes_with_its_licence() -> None:
    (pins,) = BROWSER.glob("uPlot-*.sha256")
    digests = dict(reversed(line.split()) for line in pins.read_text().splitlines())
    assert set(digests) == {path.name for path in BROWSER.glob("uPlot.*")}
    for name, digest in digests.items():
        assert hashlib.sha256((BROWSER / name).read_bytes()).hexdigest() == digest
    assert f"(v{pins.stem.removeprefix('uPlot-')})" in SCRIPTS[0]
    assert "The MIT License" in SCRIPTS[0]


def test_every_file_of_the_page_is_in_the_package() -> None:
    shipped = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["upheaval"]
    package = Path(page_of_run.__code__.co_filename).parents[1]
    assert set(BROWSER.iterdir()) <= {path for pattern in shipped for path in package.glob(pattern)}
