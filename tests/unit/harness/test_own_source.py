"""The digest of a user's code: what the service imports of its folder, and nothing else, whatever its times are."""

import os
from pathlib import Path

import pytest

from upheaval.records import source_digest

FILES = {
    "bank/__init__.py": "",
    "bank/service.py": "import json\nfrom . import rules\nfrom .money.coins import Coin\nimport helper as h\n",
    "bank/rules.py": "def rule():\n    from shared import limits\n",
    "bank/money/coins.py": "from ..names import *\n",
    "bank/names.py": "NAME = 1\n",
    "helper.py": "this is no Python\n",
    "shared/limits.py": "LIMIT = 1\n",
}
OTHERS = {"bank/unused.py": "", "tests/test_bank.py": "import bank", "json.txt": "", "bank/data.csv": ""}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {**FILES, **OTHERS}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def of(folder: Path) -> str:
    return source_digest(str(folder), "bank.service:Bank")


@pytest.mark.parametrize("name", FILES)
def test_what_the_service_imports_is_in_it(name: str, folder: Path) -> None:
    before = of(folder)
    path = folder / name
    path.write_text(path.read_text() + "# changed\n")
    assert of(folder) != before
    path.unlink()
    assert of(folder) != before


@pytest.mark.parametrize("name", OTHERS)
def test_other_files_and_times_are_not(name: str, folder: Path) -> None:
    before = of(folder)
    (folder / name).write_text("changed")
    for path in folder.rglob("*"):
        os.utime(path, (0, 0))
    assert of(folder) == before


def test_a_file_that_is_moved_is_another_one(folder: Path) -> None:
    before = of(folder)
    (folder / "bank" / "helper.py").write_text((folder / "helper.py").read_text())
    assert of(folder) == before
    (folder / "helper.py").rename(folder / "helper2.py")
    assert of(folder) != before


def test_there_is_none_without_code(folder: Path) -> None:
    assert source_digest(str(folder), "register") == source_digest("", "bank.service:Bank") == ""
    assert source_digest(str(folder), "nosuch.module:Class") == ""
    assert len(of(folder)) == 64
