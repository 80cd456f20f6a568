"""The folder of a service's code: what members ran is what a judge replays, whatever folder a test names."""

from pathlib import Path

import pytest

from upheaval.errors import UsageError
from upheaval.testing.cluster import source_folder

SERVICE = "till:Till"


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the Python path with the service, beside the empty current folder."""
    folder = tmp_path / "src"
    for path in (folder, tmp_path / "current", tmp_path / "models"):
        path.mkdir()
    (folder / "till.py").write_text("class Till:\n    pass\n")
    (tmp_path / "models" / "checks.py").write_text("class Tills:\n    pass\n")
    monkeypatch.chdir(tmp_path / "current")
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.mark.parametrize("source", [None, ".", "..", "../models"])
def test_a_folder_without_the_module_gives_way_to_the_one_of_the_python_path(source: str | None, code: Path) -> None:
    assert source_folder(SERVICE, source) == code


def test_a_folder_with_the_module_stays(code: Path, tmp_path: Path) -> None:
    other = tmp_path / "models"
    (other / "till.py").write_text("class Till:\n    pass\n")
    assert source_folder(SERVICE, other) == other


def test_the_package_of_a_module_is_not_the_module(code: Path, tmp_path: Path) -> None:
    for folder in (code, tmp_path / "models"):
        (folder / "shop").mkdir()
        (folder / "shop" / "__init__.py").write_text("")
    (code / "shop" / "till.py").write_text("class Till:\n    pass\n")
    assert source_folder("shop.till:Till", tmp_path / "models") == code


def test_a_folder_gives_way_to_none_that_lacks_the_model(code: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    assert source_folder(SERVICE, models, model="checks:Tills") == models
    (code / "checks.py").write_text("class Tills:\n    pass\n")
    assert source_folder(SERVICE, models, model="checks:Tills") == code
    assert source_folder(SERVICE, models, model="checks") == code


def test_class_paths_and_installed_and_shipped_services_have_no_other_folder(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = Path.cwd()
    assert source_folder("classes:Till", None, "aeron:1.51.0") == current
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "parcel.py").write_text("class Parcel:\n    pass\n")
    monkeypatch.syspath_prepend(str(installed))
    assert source_folder("parcel:Parcel", None) == current
    assert source_folder("workbench", None) is None


def test_a_folder_that_does_not_exist_is_refused(code: Path) -> None:
    with pytest.raises(UsageError, match=r"source .*nowhere is not a folder"):
        source_folder(SERVICE, "nowhere")
