"""The wheel and the sdist: what an index says of them, and what is in them."""

import re
import subprocess
import sys
import tarfile
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from support.stranger import ROOT, build_wheel
from upheaval_node import __version__

IMAGE_TAG = re.compile(r"upheaval/(?:node|node-test|load|analysis|netfault|prometheus|toxiproxy):([0-9][\w.]*)")
WITH_TAGS = [*ROOT.glob("compose/*.yaml"), *ROOT.glob("images/*/Dockerfile"), *ROOT.glob("docs/*.md")]


@pytest.fixture(scope="session")
def metadata(distributions: list[Path]) -> Message:
    with ZipFile(distributions[0]) as wheel:
        return Parser().parsestr(wheel.read(f"upheaval-{__version__}.dist-info/METADATA").decode())


def judged(*command: str) -> str:
    """The output of a checker that must find nothing."""
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_checkers_of_distributions_find_nothing(distributions: list[Path]) -> None:
    assert judged("twine", "--no-color", "check", "--strict", *map(str, distributions)).count("PASSED") == 2
    judged("check_wheel_contents", str(distributions[0]))


def test_the_project_file_is_valid() -> None:
    assert judged("validate_pyproject", "pyproject.toml") == "Valid file: pyproject.toml\n"


def test_an_index_has_what_people_look_for(metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert {line.split(",")[0] for line in metadata.get_all("Project-URL", [])} >= {"Source", "Changelog", "Issues"}
    pythons = [line for line in metadata.get_all("Classifier", []) if re.search(r":: 3\.\d+$", line)]
    assert [line.rpartition(" ")[2] for line in pythons] == ["3.11", "3.12", "3.13", "3.14"]


def test_each_link_of_the_text_on_an_index_is_absolute(metadata: Message) -> None:
    links = re.findall(r"\]\(([^)]+)\)", str(metadata.get_payload()))
    assert len(links) > 5
    assert [link for link in links if not link.startswith("https://")] == []


def test_every_package_says_that_it_is_typed(distributions: list[Path]) -> None:
    with ZipFile(distributions[0]) as wheel:
        names = wheel.namelist()
    packages = {name.partition("/")[0] for name in names if name.endswith("/__init__.py")}
    assert packages == {"upheaval", "upheaval_chaos", "upheaval_node", "upheaval_pipeline"}
    assert [package for package in packages if f"{package}/py.typed" not in names] == []


@pytest.mark.parametrize("folder", ["tests", "docs", "images", "compose", "examples", "tools", ".github"])
def test_the_sdist_holds_the_repository(distributions: list[Path], folder: str) -> None:
    with tarfile.open(distributions[1]) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    # The copy that it was made from: other tests change the tree meanwhile.
    source = distributions[0].parents[1] / "source"
    ours = {path.relative_to(source).as_posix() for path in (source / folder).rglob("*") if path.is_file()}
    assert ours
    assert {name for name in ours if not name.endswith(".pyc")} - inside == set()


def test_a_module_of_an_earlier_build_is_not_in_the_wheel(tmp_path: Path) -> None:
    """`pip install` of a clone builds in its tree, and leaves the modules there."""
    removed_since = tmp_path / "source" / "build" / "lib" / "upheaval" / "removed_since.py"
    removed_since.parent.mkdir(parents=True)
    removed_since.write_text("")
    with ZipFile(build_wheel(tmp_path)) as wheel:
        names = wheel.namelist()
    assert "upheaval/model.py" in names
    assert "upheaval/removed_since.py" not in names


def test_images_have_the_version_of_the_package() -> None:
    tags = {(path.name, tag) for path in WITH_TAGS for tag in IMAGE_TAG.findall(path.read_text(encoding="utf-8"))}
    assert len(tags) > 5
    assert {(name, tag) for name, tag in tags if tag != __version__} == set()
