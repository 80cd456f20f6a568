"""Aeron's programs and our member program for them: jars pinned by version and digest, classes compiled against one.

A jar comes from the user's Maven repository, or Maven fetches it from the machine's own package source, into a cache of
the user. The classes come from the wheel, or javac compiles `images/aeron` beside the jar. What is in the cache is
neither fetched nor compiled again. Starts no member.
"""

import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from upheaval.errors import EnvironmentFault, UsageError
from upheaval.repository import REPOSITORY, Repository
from upheaval_chaos.programs import run_program
from upheaval_node.suggestions import did_you_mean

USUAL_VERSION: Final = "1.51.0"
SHA256: Final[Mapping[str, str]] = {
    "1.51.0": "9686a7c6bb3c464f7ac76ceaf7a0c67249e3499aa8142872a6d1b2f398bca458",
    "1.49.3": "3325d49681ea05bd0b3efd16347fb381d53b62e77a7f5176a116d87cf4d4817e",
    "1.47.4": "3c7737bdc458235ac825a9eb372cfbc02144f739f33d9329acf18efa83bc4e07",
    "1.47.3": "2b9a55bc76348e5b6e7a81234eff2dafdcff12d4f09212e3804f50c3e9ad379d",
    "1.46.9": "1e52197d01dbde5284efbddc1376d665f0269149070fdaa152a1f094f2d2bebc",
    "1.44.1": "3bcd1b5a9ec5ea6461de67b5ce7ce97c57c5129bef3158cbe0fac0b7bfb716ad",
}
"""The versions that can be had, with the digests of their jars."""
JAR: Final = "aeron-all.jar"
CLASSES: Final = "classes"
INSIDE: Final = ("python3", "-m", "upheaval.system.aeron_inside")
"""What is asked inside of a container; see there."""
CONFIGURATION_VARIABLE: Final = "UPHEAVAL_CONFIG"
"""The properties of what a container runs."""
"""What an image has beside each other of them, in `IN_IMAGE`."""
AERON_LABEL: Final = "upheaval.aeron"
"""The label of an image with the version of Aeron in it."""
SERVICES_IN_IMAGE: Final = "/opt/aeron/services/*"
"""Where an image that stands on ours has the jars of its service."""
IN_IMAGE: Final = "/opt/aeron"
_SOURCES: Final = "images/aeron"
READY_MADE: Final = "member-classes"
"""The folder with the classes for each version as zip files, which `tools/member_classes.py` fills for a wheel."""
_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "upheaval"
# The second option is for `sun.misc.Signal`, of which javac warns otherwise.
_JAVAC: Final = ("javac", "-Xlint:all", "-XDignore.symbol.file", "-encoding", "UTF-8")
_OPENED: Final = ("java.base/jdk.internal.misc", "java.base/sun.nio.ch", "java.base/java.util.zip")
"""The packages of Java's that Agrona looks into."""


def require_version(version: str) -> None:
    """Raises `UsageError` for one that is not among those with a digest."""
    if version not in SHA256:
        known = ", ".join(SHA256)
        raise UsageError(f"unknown version {version!r} of aeron: use one of {known}{did_you_mean(version, SHA256)}")


def jar_path(version: str) -> Path:
    """Where the jar of a version lies, if it is there."""
    return _CACHE / f"aeron-all-{version}.jar"


@cache
def jar(version: str = USUAL_VERSION) -> Path:
    """The jar of a version, fetched unless it is there. Raises `HarnessError` with why it cannot be had."""
    require_version(version)
    path = jar_path(version)
    if not path.exists() or _digest(path) != SHA256[version]:
        _fetch(version, path)
    return path


def take_jar(path: Path) -> str:
    """Put a jar that the user has into the cache; its version, which its digest says.

    Raises `UsageError` for a file that is no jar of a known version.
    """
    try:
        digest = _digest(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    for version, known in SHA256.items():
        if digest == known:
            _put(path, jar_path(version))
            return version
    raise UsageError(f"{path} is no jar aeron-all of {', '.join(SHA256)}: its SHA-256 is {digest}")


@cache
def member_classes(version: str = USUAL_VERSION, *, tests: bool = False) -> Path:
    """A folder with the classes of `images/aeron` for the jar of a version, with those of its tests where wanted.

    Its name says of which sources it is, so that a change makes another one. Raises `HarnessError`.
    """
    library = jar(version)
    name = classes_name(version, tests=tests)
    classes = _CACHE / name
    if not classes.exists():
        ready_made = REPOSITORY.find(f"{READY_MADE}/{name}.zip")
        with tempfile.TemporaryDirectory(dir=_CACHE) as folder:
            made = Path(folder) / CLASSES
            if ready_made is not None:
                zipfile.ZipFile(ready_made).extractall(made)
            else:
                _compile(made, library, [path for _, path in _sources(REPOSITORY, tests=tests)])
            _rename(made, classes)
    return classes


def classes_name(version: str, *, tests: bool = False, repository: Repository = REPOSITORY) -> str:
    """The name of the folder of classes for a version: it holds the digest of their sources."""
    digest = hashlib.sha256()
    for name, path in _sources(repository, tests=tests):
        digest.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return f"aeron-member-{version}-{digest.hexdigest()[:16]}"


def _sources(repository: Repository, *, tests: bool) -> list[tuple[str, Path]]:
    folder = f"{_SOURCES}/src" if tests else f"{_SOURCES}/src/main"
    return sorted((name, path) for name, path in repository.files([folder]) if path.suffix == ".java")


def java_command(version: str, program: str, *arguments: str, services: Sequence[str] = ()) -> list[str]:
    """What runs a class of ours against the jar of a version, with that class path of services.

    Raises `HarnessError` when something is missing.
    """
    return java_line([str(jar(version)), str(member_classes(version)), *services], program, *arguments)


def java_line(class_path: Sequence[str], program: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
    """The same for what lies there, with more options of Java's. Raises `EnvironmentFault` without Java."""
    java = shutil.which("java")
    if java is None:
        raise EnvironmentFault("java is missing, which members of Aeron need (Debian: openjdk-17-jdk-headless)")
    opens = [word for package in _OPENED for word in ("--add-opens", f"{package}=ALL-UNNAMED")]
    # Members share the cores of one machine: one thread collects garbage, and little is compiled by the other.
    usual = ["-Xmx192m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Daeron.print.configuration=false"]
    return [java, *opens, *usual, *options, "-cp", os.pathsep.join(class_path), program, *arguments]


def _compile(made: Path, library: Path, sources: Sequence[Path]) -> None:
    if shutil.which("javac") is None:
        raise EnvironmentFault("javac is missing, which members of Aeron need (Debian: openjdk-17-jdk-headless)")
    problem = _problem([*_JAVAC, "-cp", str(library), "-d", str(made), *map(str, sources)])
    if problem is not None:
        raise EnvironmentFault(f"javac cannot compile {REPOSITORY.path(_SOURCES)}:\n{problem}")


def _rename(made: Path, classes: Path) -> None:
    """The folder appears under its name when it is whole; that of another process is as good."""
    try:
        made.rename(classes)
    except OSError:
        if not classes.exists():
            raise


def _put(source: Path, path: Path) -> None:
    """Copy a jar into the cache, where it appears when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        shutil.copyfile(source, Path(folder) / path.name).replace(path)


def _fetch(version: str, path: Path) -> None:
    """Put the jar into the cache."""
    in_repository = Path.home() / ".m2/repository/io/aeron/aeron-all" / version / path.name
    if in_repository.is_file() and _digest(in_repository) == SHA256[version]:
        _put(in_repository, path)
        return
    if shutil.which("mvn") is None:
        raise EnvironmentFault(
            f"no jar of Aeron {version}: give one by `upheaval demo --system aeron --jar PATH`, "
            "or install Maven, which fetches it (Debian: maven)"
        )
    _CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_CACHE) as folder:
        artifact = f"io.aeron:aeron-all:{version}"
        command = ["mvn", "-B", "-q", f"{_PLUGIN}:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
        problem = _problem(command, folder)
        if problem is not None:
            lines = [line for line in problem.splitlines() if "ERROR" in line]
            raise EnvironmentFault(f"mvn cannot fetch {artifact}: {lines[0] if lines else 'it gave no reason'}")
        jar = Path(folder) / path.name
        if _digest(jar) != SHA256[version]:
            raise EnvironmentFault(f"{artifact} has the digest {_digest(jar)} instead of {SHA256[version]}")
        jar.replace(path)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _problem(command: Sequence[str], folder: str | None = None) -> str | None:
    """What a program said that failed; None when it did not."""
    done = run_program(command, folder=folder, is_joined=True)
    return done.stdout if done.returncode else None
