"""When an archive of Aeron's classes is made, when it is taken, and what Java runs with where it cannot be had."""

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.live_clusters import ROOT
from upheaval import shared_classes
from upheaval.aeron_programs import OPTIONS_VARIABLE, java_line
from upheaval.errors import UsageError
from upheaval.shared_classes import sharing_options

DUMPS = """#!/bin/sh
echo dump >> {log}
for word in "$@"; do
    case $word in -XX:SharedArchiveFile=*) echo classes > "${{word#*=}}" ;; esac
done
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A jar in a cache of this test alone."""
    jar = tmp_path / "cache" / "upheaval" / "aeron-all-1.51.0.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"PK")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shared_classes._cached.cache_clear()
    yield jar
    shared_classes._cached.cache_clear()


def program(folder: Path, text: str) -> Path:
    """What runs in place of Java."""
    folder.mkdir(exist_ok=True)
    path = folder / "java"
    path.write_text(text.format(log=folder.parent / "dumps"), encoding="utf-8")
    path.chmod(stat.S_IRWXU)
    return path


def archive_of(options: list[str]) -> Path:
    (text,) = (option.partition("=")[2] for option in options if option.startswith("-XX:SharedArchiveFile="))
    return Path(text)


def test_an_archive_is_made_once_for_a_jar_and_a_java(library: Path, tmp_path: Path) -> None:
    java = program(tmp_path / "bin", DUMPS)
    options = sharing_options(java, library)
    assert archive_of(options).read_text(encoding="utf-8") == "classes\n"
    shared_classes._cached.cache_clear()
    assert sharing_options(java, library) == options
    assert (tmp_path / "dumps").read_text(encoding="utf-8") == "dump\n"


@pytest.mark.parametrize("changed", ["java", "jar"])
def test_another_java_or_jar_has_another_archive(changed: str, library: Path, tmp_path: Path) -> None:
    java = program(tmp_path / "bin", DUMPS)
    first = archive_of(sharing_options(java, library))
    path = java if changed == "java" else library
    path.write_bytes(path.read_bytes() + b"\n")
    shared_classes._cached.cache_clear()
    second = archive_of(sharing_options(java, library))
    assert second != first
    assert second.exists()


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\n", "no program"])
def test_a_java_that_makes_none_runs_without(text: str, library: Path, tmp_path: Path) -> None:
    assert sharing_options(program(tmp_path / "bin", text), library) == []
    assert list(library.parent.iterdir()) == [library]


def test_a_cache_that_cannot_be_written_is_done_without(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "upheaval").symlink_to("/proc/self")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert sharing_options(program(tmp_path / "bin", DUMPS), tmp_path / "upheaval" / "status") == []


def test_a_jar_out_of_the_cache_has_the_archive_beside_it_or_none(library: Path, tmp_path: Path) -> None:
    java = program(tmp_path / "bin", DUMPS)
    jar = tmp_path / "aeron-all.jar"
    jar.write_bytes(library.read_bytes())
    assert sharing_options(java, jar) == []
    jar.with_suffix(".jsa").write_text("classes", encoding="utf-8")
    assert archive_of(sharing_options(java, jar)) == jar.with_suffix(".jsa")


def test_options_of_the_environment_come_before_those_of_a_program(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = program(tmp_path / "bin", DUMPS)
    monkeypatch.setenv("PATH", str(java.parent), prepend=os.pathsep)
    monkeypatch.setenv(OPTIONS_VARIABLE, "-Xmx1g '-Dname=two words'")
    line = java_line([str(library)], "Program", options=["-Xmx2g"])
    assert line[line.index("-Xmx1g") :] == ["-Xmx1g", "-Dname=two words", "-Xmx2g", "-cp", str(library), "Program"]


def test_options_that_no_shell_could_split_are_refused(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(program(tmp_path / "bin", DUMPS).parent), prepend=os.pathsep)
    monkeypatch.setenv(OPTIONS_VARIABLE, "'-Dname=x")
    with pytest.raises(UsageError, match=r"^UPHEAVAL_JAVA_OPTIONS \"'-Dname=x\": No closing quotation: write it as"):
        java_line([str(library)], "Program")


def test_a_path_that_java_would_split_is_refused(library: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"/a:b' has a ':', which ends a folder of Java's class path: move it$"):
        java_line([str(library), str(tmp_path / "a:b")], "Program")


def test_archives_of_long_ago_are_removed_when_another_is_made(library: Path, tmp_path: Path) -> None:
    old, recent = (library.with_name(f"aeron-all-1.49.3-{name}.jsa") for name in ("old", "recent"))
    for archive in (old, recent):
        archive.write_text("classes", encoding="utf-8")
    os.utime(old, (0, 0))
    made = archive_of(sharing_options(program(tmp_path / "bin", DUMPS), library))
    assert sorted(library.parent.iterdir()) == sorted([library, recent, made])


def test_an_image_shows_why_its_archive_was_not_made(tmp_path: Path) -> None:
    recipe = (ROOT / "images" / "aeron" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
    (line,) = (line for line in recipe.splitlines() if "-Xshare:dump" in line)
    command = f"java() {{ echo no memory; return 1; }};{line.removeprefix('RUN')}".replace("/tmp/", f"{tmp_path}/")
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "no memory\n")
