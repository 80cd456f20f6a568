"""Which jar a version or a path of Aeron names, what is refused, and which classes run on a jar without a compiler."""

import hashlib
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.class_files import class_file
from upheaval import aeron_jars, aeron_programs
from upheaval.aeron_api import missing_of, parse_class
from upheaval.aeron_jars import canonical_version, jar, jar_path, order_of, take_jar, versions_at_hand, versions_of
from upheaval.aeron_programs import classes_name, classes_note, image_tag, member_classes
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.repository import Repository

START, STOP, BEGIN = ("start", "()V"), ("stop", "()V"), ("begin", "(J)V")
MODULE, SERVICE = "io/aeron/cluster/ConsensusModule", "io/aeron/cluster/Service"


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache and a home of this test alone."""
    cache = tmp_path / "cache" / "upheaval"
    cache.mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for function in (jar, aeron_jars.jar_digest, member_classes):
        function.cache_clear()
    yield cache
    for function in (jar, aeron_jars.jar_digest, member_classes):
        function.cache_clear()


def write_jar(path: Path, version: str = "1.53.0-SNAPSHOT", **classes: bytes) -> Path:
    """A jar that passes for Aeron's by its names, or has real classes."""
    content = {"ConsensusModule": b"", "Service": b"", **classes}
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\nImplementation-Version: {version}\n")
        archive.writestr("io/aeron/driver/MediaDriver.class", b"")
        for name, bytes_ in content.items():
            archive.writestr(f"io/aeron/cluster/{name}.class", bytes_)
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fake_maven(folder: Path, body: str) -> str:
    """A program `mvn` that does `body`; the search path that has it and nothing else."""
    folder.mkdir()
    program = folder / "mvn"
    program.write_text(f"#!{sys.executable}\nimport pathlib, sys\n{body}\n")
    program.chmod(0o755)
    return str(folder)


def test_a_version_names_itself_and_none_the_usual_one() -> None:
    assert canonical_version() == "1.51.0"
    assert canonical_version("1.46.7") == "1.46.7"
    assert canonical_version("1.53.0@0123456789abcdef") == "1.53.0@0123456789abcdef"


def test_a_jar_by_its_path_is_cached_under_its_version_and_digest(tmp_path: Path) -> None:
    built = write_jar(tmp_path / "my.jar")
    version = canonical_version(str(built))
    assert version == f"1.53.0-SNAPSHOT@{digest(built)[:16]}"
    content = built.read_bytes()
    built.unlink()
    assert jar(version).read_bytes() == content
    assert aeron_jars.jar_digest(version) == hashlib.sha256(content).hexdigest()
    assert image_tag("aeron", version) == f"upheaval/aeron:1.53.0-SNAPSHOT-{digest(jar(version))[:16]}"


def test_another_build_is_another_version(tmp_path: Path) -> None:
    first = take_jar(write_jar(tmp_path / "my.jar"))
    second = take_jar(write_jar(tmp_path / "my.jar", More=b"x"))
    assert first != second
    assert jar(first).exists()
    assert jar(second).exists()


def test_a_build_tree_names_its_newest_jar_with_classes(tmp_path: Path) -> None:
    libs = tmp_path / "aeron" / "aeron-all" / "build" / "libs"
    old = write_jar(libs / "aeron-all-1.52.0.jar", "1.52.0")
    new = write_jar(libs / "aeron-all-1.53.0-SNAPSHOT.jar")
    sources = write_jar(libs / "aeron-all-1.53.0-SNAPSHOT-sources.jar")
    for age, path in enumerate((sources, new, old)):
        os.utime(path, ns=(10**18 - age, 10**18 - age))
    assert canonical_version(str(tmp_path / "aeron")) == f"1.53.0-SNAPSHOT@{digest(new)[:16]}"


def test_a_path_may_have_commas(tmp_path: Path) -> None:
    own = write_jar(tmp_path / "a,b" / "my,own.jar", "1.53.0")
    version = f"1.53.0@{digest(own)[:16]}"
    assert versions_of(str(own)) == (version,)
    assert versions_of(f"1.49.3,{own},1.51.0") == ("1.49.3", version, "1.51.0")
    assert versions_of(f"{own},{own}") == (version, version)
    with pytest.raises(UsageError, match="one is missing beside a comma"):
        versions_of(f"{own},,1.51.0")


def test_versions_at_hand_are_those_of_cache_and_maven(tmp_path: Path, empty_cache: Path) -> None:
    maven = tmp_path / "home/.m2/repository/io/aeron/aeron-all"
    names = ["1.9.0/aeron-all-1.9.0", "1.46.7/aeron-all-1.46.7", "1.51.0/aeron-all-1.51.0-sources"]
    for name in names:
        write_jar(maven / f"{name}.jar")
    (maven / "1.50.0").mkdir()
    for version in ("1.46.7", "1.101.0", "1.53.0-SNAPSHOT@0123456789abcdef"):
        write_jar(empty_cache / f"aeron-all-{version}.jar")
    assert versions_at_hand() == ["1.101.0", "1.53.0-SNAPSHOT@0123456789abcdef", "1.46.7"]


def test_a_snapshot_is_the_one_that_maven_has_here(tmp_path: Path) -> None:
    name = "1.53.0-SNAPSHOT"
    built = write_jar(tmp_path / "home/.m2/repository/io/aeron/aeron-all" / name / f"aeron-all-{name}.jar")
    assert canonical_version(name) == f"{name}@{digest(built)[:16]}"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_bytes(b"no jar"), "a.jar is not a jar: File is not a zip file"),
        (lambda path: path.mkdir(), r"a.jar has no aeron-all-\*.jar: build it with"),
        (lambda path: None, "a.jar: No such file or directory"),
        (
            lambda path: zipfile.ZipFile(path, "w").close(),
            "is not a jar aeron-all: it has no io/aeron/cluster/Consensus",
        ),
        (lambda path: write_jar(path, "dev"), "a.jar has no version like 1.51.0 in its manifest"),
        (lambda path: write_jar(path, "1.42.1"), "a.jar, Aeron 1.42.1, is too old: members run on 1.44.1 and later"),
    ],
    ids=["no-zip", "folder", "missing", "another-jar", "no-version", "too-old"],
)
def test_what_is_no_jar_of_aeron_is_refused_and_not_cached(tmp_path: Path, make, says: str) -> None:  # type: ignore[no-untyped-def]
    make(tmp_path / "a.jar")
    with pytest.raises(UsageError, match=says) as raised:
        canonical_version(str(tmp_path / "a.jar"))
    assert "\n" not in str(raised.value)
    assert list((tmp_path / "cache" / "upheaval").iterdir()) == []


def test_a_version_that_is_fetched_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = (
        "options = dict(word[2:].split('=', 1) for word in sys.argv[1:] if word.startswith('-D'))\n"
        "version = options['artifact'].rpartition(':')[2]\n"
        "pathlib.Path(options['outputDirectory'], f'aeron-all-{version}.jar').write_bytes(b'a jar')"
    )
    monkeypatch.setenv("PATH", fake_maven(tmp_path / "bin", body))
    assert jar("1.46.7") == jar_path("1.46.7")
    assert aeron_jars.jar_digest("1.46.7") == hashlib.sha256(b"a jar").hexdigest()
    with pytest.raises(EnvironmentFault, match=r"aeron-all:1\.46\.9 has the digest .* instead of 1e52197d"):
        jar("1.46.9")
    assert not jar_path("1.46.9").exists()


@pytest.mark.parametrize(
    ("printed", "error", "says"),
    [
        (
            "[ERROR] x: Could not find artifact io.aeron:aeron-all:jar:1.46.7 in central",
            UsageError,
            r"Maven has no Aeron 1\.46\.7 \(io.aeron:aeron-all\): use a published version, or the path of a jar",
        ),
        (
            "[ERROR] x: io.aeron:aeron-all:jar:1.46.7 was not found in central during a previous attempt",
            UsageError,
            r"Maven has no Aeron 1\.46\.7 ",
        ),
        ("[INFO] x\n[ERROR] no route\n[ERROR] y", EnvironmentFault, r"mvn cannot fetch .*1\.46\.7: \[ERROR\] no route"),
    ],
)
def test_what_maven_cannot_have_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, error: type[Exception], says: str
) -> None:
    monkeypatch.setenv("PATH", fake_maven(tmp_path / "bin", f"print({printed!r})\nsys.exit(1)"))
    with pytest.raises(error, match=says) as raised:
        jar("1.46.7")
    assert "\n" not in str(raised.value)


def test_without_maven_and_jar_one_line_says_what_to_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        EnvironmentFault, match=r"no jar of Aeron 1\.46\.7: .*, for pytest `-o upheaval_system=aeron:PATH`\), or "
    ):
        jar("1.46.7")
    with pytest.raises(UsageError, match=r"the jar of Aeron 1.53.0@0{16} is missing from .*: name its path"):
        jar("1.53.0@" + "0" * 16)


# --- classes without a compiler ---


def aeron(path: Path, version: str, *, begins: str = "(J)V", tells: tuple[tuple[str, str], ...] = (START,)) -> Path:
    """A jar with a class whose method our member calls, and an interface that it implements."""
    module = class_file(MODULE, methods=[("begin", begins)])
    return write_jar(
        path, version, ConsensusModule=module, Service=class_file(SERVICE, methods=tells, is_interface=True)
    )


def member(*more: tuple[str, tuple[str, str]]) -> bytes:
    calls = [(MODULE, BEGIN), ("java/util/List", ("size", "()I")), *more]
    return class_file("upheaval/Member", interfaces=[SERVICE], methods=[START], calls=calls)


def test_classes_fit_a_jar_that_has_all_they_refer_to(tmp_path: Path) -> None:
    library = aeron(tmp_path / "a.jar", "1.52.0")
    assert lack(tmp_path, library, member()) == ""
    inherited = class_file("upheaval/Base", parent=MODULE)
    through = member(("upheaval/Base", BEGIN))
    assert lack(tmp_path, library, through, inherited) == ""


@pytest.mark.parametrize(
    ("changes", "calls", "says"),
    [
        ({"begins": "(JI)V"}, [], "io.aeron.cluster.ConsensusModule.begin"),
        ({}, [("io/aeron/Gone", BEGIN)], "class io.aeron.Gone"),
        ({}, [(SERVICE, STOP)], "io.aeron.cluster.Service.stop"),
        (
            {"tells": (START, STOP)},
            [],
            "upheaval.Member as io.aeron.cluster.Service, which has a new method stop",
        ),
    ],
    ids=["other-types", "no-class", "no-method", "new-method"],
)
def test_what_classes_need_and_a_jar_lacks_is_named(
    tmp_path: Path,
    changes: dict[str, Any],
    calls: list[tuple[str, tuple[str, str]]],
    says: str,
) -> None:
    assert lack(tmp_path, aeron(tmp_path / "a.jar", "1.52.0", **changes), member(*calls)) == says


NO_CONSTANTS = b"\xca\xfe\xba\xbe" + bytes(4) + b"\0\1" + bytes(2) + b"\0\7" + bytes(10)
"""A class whose name is the seventh constant of none."""


@pytest.mark.parametrize("content", [b"", b"\xca\xfe\xba\xbe", member()[:-20], b"x" * 40, NO_CONSTANTS])
def test_bytes_that_are_no_class_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"no class file|ends too early|names a missing constant"):
        parse_class(content)


def test_a_jar_with_a_damaged_class_is_refused_by_name(tmp_path: Path) -> None:
    library = aeron(tmp_path / "a.jar", "1.52.0")
    with zipfile.ZipFile(library, "a") as archive:
        archive.writestr("io/aeron/Damaged.class", NO_CONSTANTS)
    with pytest.raises(UsageError, match=r"a\.jar: cannot read io/aeron/Damaged\.class: a class file that names"):
        lack(tmp_path, library, member(("io/aeron/Damaged", BEGIN)))


def lack(folder: Path, library: Path, *classes: bytes) -> str:
    ours = folder / "ours"
    ours.mkdir(exist_ok=True)
    for number, content in enumerate(classes):
        (ours / f"{number}.class").write_bytes(content)
    return missing_of(ours, library)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation without javac, whose wheel has classes for 1.49.3 and 1.51.0; the folder of these."""
    package = tmp_path / "installed" / "upheaval"
    inside = package / "_repository"
    (inside / "images/aeron/src/main").mkdir(parents=True)
    (inside / "images/aeron/src/main/Member.java").write_text("class Member { }")
    ready_made = inside / aeron_programs.READY_MADE
    ready_made.mkdir()
    repository = Repository(package)
    monkeypatch.setattr(aeron_programs, "REPOSITORY", repository)
    monkeypatch.setenv("PATH", str(tmp_path))
    for version, content in (("1.49.3", member()), ("1.51.0", member(("io/aeron/New", BEGIN)))):
        with zipfile.ZipFile(ready_made / f"{classes_name(version, repository=repository)}.zip", "w") as archive:
            archive.writestr("upheaval/Member.class", content)
    return ready_made


@pytest.mark.usefixtures("installed")
def test_without_a_compiler_the_nearest_classes_that_fit_run_and_it_is_noted(tmp_path: Path) -> None:
    version = take_jar(aeron(tmp_path / "a.jar", "1.50.9"))
    classes = member_classes(version)
    assert classes.name == classes_name("1.49.3", repository=Repository(tmp_path / "installed" / "upheaval"))
    assert (classes / "upheaval/Member.class").read_bytes() == member()
    note = f"members of Aeron {version} run classes compiled for 1.49.3: javac is missing, and their API is equal"
    assert classes_note(version) == note


def test_classes_of_the_very_version_need_no_note(tmp_path: Path, installed: Path) -> None:
    version = take_jar(aeron(tmp_path / "a.jar", "1.50.9"))
    name = classes_name(version, repository=Repository(tmp_path / "installed" / "upheaval"))
    with zipfile.ZipFile(installed / f"{name}.zip", "w") as archive:
        archive.writestr("upheaval/Member.class", member())
    assert member_classes(version).name == name
    assert classes_note(version) == ""


@pytest.mark.usefixtures("installed")
def test_without_a_compiler_a_jar_that_lacks_something_is_refused(tmp_path: Path) -> None:
    version = take_jar(aeron(tmp_path / "a.jar", "1.52.0", begins="()V"))
    says = r"javac is missing, which compiles members for .*; those for 1.51.0 need class io.aeron.New"
    with pytest.raises(EnvironmentFault, match=says):
        member_classes(version)


@pytest.mark.usefixtures("installed")
def test_a_compiler_that_fails_says_what_is_too_different_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = "/x/A.java:59: error: cannot find symbol\n    module.go();\n          ^\n  symbol:   method go()\n1 error"
    program = tmp_path / "javac"
    program.write_text(f"#!{sys.executable}\nimport sys\nprint({printed!r})\nsys.exit(1)\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    version = take_jar(aeron(tmp_path / "a.jar", "1.52.0"))
    with pytest.raises(EnvironmentFault) as raised:
        member_classes(version)
    says = "which is too different from 1.51.0: A.java:59: error: cannot find symbol method go()"
    assert str(raised.value) == f"members cannot be compiled for Aeron {version}, {says}"


def test_a_build_before_a_release_is_older_than_it_and_one_after_it_newer() -> None:
    in_order = ["1.50.9", "1.51.0-alpha", "1.51.0-M2", "1.51.0-M10", "1.51.0-rc2", "1.51.0-RC10"]
    in_order += ["1.51.0-SNAPSHOT", "1.51.0", "1.51.0-patch1", "1.51.1-SNAPSHOT"]
    assert sorted(set(in_order), key=order_of) == in_order
    assert order_of("1.51.0-SNAPSHOT@0123456789abcdef") == order_of("1.51.0-SNAPSHOT@fedcba9876543210")


def test_a_build_of_the_oldest_number_is_not_too_old() -> None:
    assert canonical_version("1.44.1-rc1") == "1.44.1-rc1"
