"""What goes into an image of a custom service: its folder without runs, its packages, and no network."""

import io
import tarfile
from pathlib import Path

import pytest

from support.wheels import make_wheel
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.images import packages
from upheaval.images.own import write_own_context
from upheaval.images.packages import fetch_own

MACHINE = "x86_64"


@pytest.fixture
def service(tmp_path: Path) -> Path:
    """A folder with a service, its requirements, and what is not to be copied."""
    folder = tmp_path / "bank"
    (folder / "bank").mkdir(parents=True)
    (folder / "bank" / "service.py").write_text("import greeting\n")
    (folder / "requirements.txt").write_text("greeting==1.0\nupheaval[docker]>=0.1\n")
    (folder / "runs" / "one").mkdir(parents=True)
    (folder / "runs" / "one" / "large").write_text("x")
    (folder / "data.csv").write_text("x")
    return folder


def test_packages_and_what_they_need_are_fetched(
    service: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels, work = tmp_path / "wheels", tmp_path / "work"
    wheels.mkdir()
    work.mkdir()
    make_wheel(wheels, "greeting", needs="words")
    make_wheel(wheels, "words")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    fetched = fetch_own(service / "requirements.txt", MACHINE, work)
    assert {path.name for path in fetched.glob("*.py")} == {"greeting.py", "words.py"}
    context = io.BytesIO()
    assert write_own_context(service, fetched, ["*.csv"], context) == 2
    context.seek(0)
    with tarfile.open(fileobj=context) as archive:
        files = {each.name for each in archive.getmembers() if each.isreg() and "dist-info" not in each.name}
    assert files == {
        "Dockerfile",
        "packages/greeting.py",
        "packages/words.py",
        "source/bank/service.py",
        "source/requirements.txt",
    }


def test_without_an_index_there_is_one_line(service: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    with pytest.raises(EnvironmentFault) as failed:
        fetch_own(service / "requirements.txt", MACHINE, tmp_path)
    text = str(failed.value)
    assert text.startswith("pip failed: ERROR: No matching distribution found for greeting==1.0")
    assert text.endswith("(no package index can be reached: name one by PIP_INDEX_URL, or a folder by PIP_FIND_LINKS)")
    assert "\n" not in text


def test_a_package_that_an_index_does_not_have_says_nothing_of_the_index(
    service: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(EnvironmentFault, match=r"No matching distribution found for greeting==1\.0$"):
        fetch_own(service / "requirements.txt", MACHINE, tmp_path)


def test_files_that_the_requirements_name_are_found_beside_them(
    service: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = service.rename(tmp_path / "bank of ours")
    wheels = service / "our wheels"
    wheels.mkdir()
    make_wheel(wheels, "greeting")
    make_wheel(wheels, "words")
    lines = ("-r base.txt", "--constraint=limits.txt  # ours", "--find-links 'our wheels'", "greeting==1.0")
    (service / "requirements.txt").write_text("\n".join(lines) + "\n")
    (service / "base.txt").write_text("upheaval>=0.1\nwords\n")
    (service / "limits.txt").write_text("words==1.0\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    work = tmp_path / "work"
    work.mkdir()
    fetched = fetch_own(service / "requirements.txt", MACHINE, work)
    assert {path.name for path in fetched.glob("*.py")} == {"greeting.py", "words.py"}


def test_a_package_that_only_the_images_python_needs_is_fetched(
    service: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip evaluates markers for the Python that runs it: here one that is older than the image's."""
    wheels, work = tmp_path / "wheels", tmp_path / "work"
    wheels.mkdir()
    work.mkdir()
    newer = 'python_version >= "3.99"'
    make_wheel(wheels, "greeting", needs=f'words; extra == "long" and {newer}')
    for name in ("words", "more", "other"):
        make_wheel(wheels, name)
    (service / "requirements.txt").write_text(f'greeting[long]==1.0\nmore; {newer}\nother; python_version < "3"\n')
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setitem(packages.ENVIRONMENT, "python_version", "3.99")
    fetched = fetch_own(service / "requirements.txt", MACHINE, work)
    assert {path.name for path in fetched.glob("*.py")} == {"greeting.py", "words.py", "more.py"}


def test_a_file_that_names_itself_is_one_line(service: Path, tmp_path: Path) -> None:
    (service / "requirements.txt").write_text("-r base.txt\n")
    (service / "base.txt").write_text("--requirement=requirements.txt\n")
    with pytest.raises(UsageError, match=r"requirements\.txt names itself by -r: leave that line out$"):
        fetch_own(service / "requirements.txt", MACHINE, tmp_path)


def test_an_option_that_pip_does_not_have_is_named_as_written(service: Path, tmp_path: Path) -> None:
    (service / "requirements.txt").write_text("--requirements-x\n")
    with pytest.raises(EnvironmentFault, match="Invalid requirement: --requirements-x"):
        fetch_own(service / "requirements.txt", MACHINE, tmp_path)


def test_requirements_in_another_encoding_are_one_line(service: Path, tmp_path: Path) -> None:
    (service / "requirements.txt").write_bytes("# geprüft\n".encode("latin-1"))
    with pytest.raises(UsageError, match=r"requirements\.txt is not UTF-8 \(byte 6\): save it as UTF-8$"):
        fetch_own(service / "requirements.txt", MACHINE, tmp_path)
