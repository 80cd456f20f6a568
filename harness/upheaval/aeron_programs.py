"""The member program for Aeron's jars: classes that are compiled against one version, and lines that run them.

The classes come from the wheel, or javac compiles `images/aeron` against the jar. Without javac those of the nearest
version in the wheel do, where the jar has all that they need. What is in the cache is not compiled again. Starts no
member.
"""

import hashlib
import os
import re
import shlex
import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from upheaval.aeron_api import missing_of
from upheaval.aeron_jars import USUAL_VERSION, jar, numbers_of, problem_of
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.repository import REPOSITORY, Repository
from upheaval.shared_classes import sharing_options
from upheaval.user_folders import cache_folder

JAR: Final = "aeron-all.jar"
CLASSES: Final = "classes"
AGENT: Final = "agent.jar"
INSIDE: Final = ("python3", "-m", "upheaval.system.aeron_inside")
"""What is asked inside of a container; see there."""
CONFIGURATION_VARIABLE: Final = "UPHEAVAL_CONFIG"
"""The properties of what a container runs."""
OPTIONS_VARIABLE: Final = "UPHEAVAL_JAVA_OPTIONS"
"""More options of Java's for all programs on this machine, as a shell would split them."""
AERON_LABEL: Final = "upheaval.aeron"
"""The label of an image with the version of Aeron in it."""
SERVICES_IN_IMAGE: Final = "/opt/aeron/services/*"
"""Where an image that is built on ours has the jars of its service."""
IN_IMAGE: Final = "/opt/aeron"
OWN_OUTPUT: Final = ("-XX:+DisplayVMOutputToStderr", "-Xlog:disable")
"""The last options for a program whose standard output is read: the virtual machine prints nothing there."""
_SOURCES: Final = "images/aeron"
READY_MADE: Final = "member-classes"
"""The folder with the classes for each version as zip files, which `tools/member_classes.py` fills for a wheel."""
_AGENT_MANIFEST: Final = "Manifest-Version: 1.0\nPremain-Class: upheaval.Agent\n"
_COMPILED_FOR: Final = re.compile(r"aeron-member-(.+)-[0-9a-f]{16}")
_DIGEST_IN_TAG: Final = re.compile(r"-(?=[0-9a-f]{16}$)")
_ERROR: Final = ": error: "
_SYMBOL: Final = re.compile(r"^ *symbol: *(.+?) *$", re.MULTILINE)
# For the oldest Java that members need, which is that of our image; a newer javac makes classes that it cannot load.
_JAVAC: Final = ("javac", "--release", "17", "-Xlint:all", "-encoding", "UTF-8")
_OPENED: Final = ("java.base/jdk.internal.misc", "java.base/sun.nio.ch", "java.base/java.util.zip")
"""The packages of Java's that Agrona looks into."""


@cache
def member_classes(version: str = USUAL_VERSION, *, tests: bool = False) -> Path:
    """A folder with the classes of `images/aeron` for the jar of a version, with those of its tests where wanted.

    Its name has a digest of sources and options of javac, so that a change makes another one. Raises `HarnessError`.
    """
    library = jar(version)
    of_version = cache_folder() / classes_name(version, tests=tests, repository=REPOSITORY)
    if of_version.exists():
        return of_version
    ready_made = REPOSITORY.find(f"{READY_MADE}/{of_version.name}.zip")
    if ready_made is not None:
        return _unpacked(ready_made, of_version)
    if shutil.which("javac") is None:
        return _nearest_classes(version, library)
    with tempfile.TemporaryDirectory(dir=of_version.parent) as folder:
        made = Path(folder) / CLASSES
        _compile(version, made, library, [path for _, path in _sources(REPOSITORY, tests=tests)])
        _rename(made, of_version)
    return of_version


def has_classes() -> bool:
    """Whether usual members run without javac, as far as names of files show. Raises `EnvironmentFault`."""
    return (cache_folder() / classes_name(USUAL_VERSION)).exists() or REPOSITORY.find(READY_MADE) is not None


def agent_jar(version: str) -> Path:
    """A jar with those classes that is an agent of Java's, `upheaval.Agent`. Raises `HarnessError`."""
    classes = member_classes(version)
    agent = classes.with_name(f"{classes.name}.jar")
    if agent.exists():
        return agent
    with tempfile.TemporaryDirectory(dir=agent.parent) as folder:
        made = Path(folder) / agent.name
        with zipfile.ZipFile(made, "w") as archive:
            archive.writestr("META-INF/MANIFEST.MF", _AGENT_MANIFEST)
            for path in sorted(classes.rglob("*.class")):
                archive.write(path, path.relative_to(classes).as_posix())
        made.replace(agent)
    return agent


def classes_note(version: str) -> str:
    """A sentence where the classes for a version are those of another one; empty where they are its own."""
    match = _COMPILED_FOR.fullmatch(member_classes(version).name)
    if match is None or match[1] == version:
        return ""
    return f"members of Aeron {version} run classes compiled for {match[1]}: javac is missing, and their API is equal"


def image_tag(name: str, version: str) -> str:
    """The tag of an image of ours with that version of Aeron: tags have no `@`."""
    return f"upheaval/{name}:{version.replace('@', '-')}"


def version_of_tag(tag: str) -> str:
    """The version of Aeron in such a tag."""
    return _DIGEST_IN_TAG.sub("@", tag.rpartition(":")[2])


def classes_name(version: str, *, tests: bool = False, repository: Repository = REPOSITORY) -> str:
    """The name of the folder of classes for a version: it holds the digest of their sources and options."""
    digest = hashlib.sha256(" ".join(_JAVAC).encode())
    for name, path in _sources(repository, tests=tests):
        digest.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return f"aeron-member-{version}-{digest.hexdigest()[:16]}"


def _sources(repository: Repository, *, tests: bool) -> list[tuple[str, Path]]:
    folder = f"{_SOURCES}/src" if tests else f"{_SOURCES}/src/main"
    return sorted((name, path) for name, path in repository.files([folder]) if path.suffix == ".java")


def java_command(
    version: str, program: str, *arguments: str, services: Sequence[str] = (), options: Sequence[str] = ()
) -> list[str]:
    """What runs a class of ours against the jar of a version, with that class path of services and options of Java's.

    Raises `HarnessError` when something is missing.
    """
    class_path = [str(jar(version)), str(member_classes(version)), *services]
    return java_line(class_path, program, *arguments, options=options)


def java_line(class_path: Sequence[str], program: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
    """What runs a class of a class path, with more options of Java's, and those of `OPTIONS_VARIABLE` before them.

    Raises `EnvironmentFault` without Java, `UsageError` for a variable that no shell could split, or a path with `:`.
    """
    for entry in class_path:
        if os.pathsep in entry:
            raise UsageError(f"{entry!r} has a {os.pathsep!r}, which ends a folder of Java's class path: move it")
    java = shutil.which("java")
    if java is None:
        raise EnvironmentFault("java is missing, which members of Aeron need (Debian: default-jdk-headless)")
    opens = [word for package in _OPENED for word in ("--add-opens", f"{package}=ALL-UNNAMED")]
    # Members share the cores of one machine: one thread collects garbage.
    usual = ["-Xmx192m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Daeron.print.configuration=false"]
    usual += sharing_options(Path(java), Path(class_path[0]))
    return [java, *opens, *usual, *_wanted_options(), *options, "-cp", os.pathsep.join(class_path), program, *arguments]


def _wanted_options() -> list[str]:
    text = os.environ.get(OPTIONS_VARIABLE, "")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{OPTIONS_VARIABLE} {text!r}: {error}: write it as for a shell") from None


def _unpacked(ready_made: Path, classes: Path) -> Path:
    classes.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=classes.parent) as folder:
        made = Path(folder) / CLASSES
        with zipfile.ZipFile(ready_made) as archive:
            archive.extractall(made)
        _rename(made, classes)
    return classes


def _nearest_classes(version: str, library: Path) -> Path:
    """Ready-made classes of another version that need nothing which the jar has not."""
    folder = REPOSITORY.find(READY_MADE)
    by_version = {
        known: path
        for path in (folder.glob("*.zip") if folder is not None else ())
        if (match := _COMPILED_FOR.fullmatch(path.stem))
        and path.stem == classes_name(known := match[1], repository=REPOSITORY)
    }
    lacks = []
    for known in sorted(by_version, key=lambda known: _distance(known, version)):
        classes = cache_folder() / by_version[known].stem
        if not classes.exists():
            _unpacked(by_version[known], classes)
        lack = missing_of(classes, library)
        if not lack:
            return classes
        lacks.append(f"those for {known} need {lack}")
    raise EnvironmentFault(
        f"javac is missing, which compiles members for Aeron {version} (Debian: default-jdk-headless)"
        + "".join(f"; {lack}" for lack in lacks[:1])
    )


def _distance(one: str, other: str) -> tuple[int, ...]:
    return tuple(abs(a - b) for a, b in zip(numbers_of(one), numbers_of(other), strict=True))


def _compile(version: str, made: Path, library: Path, sources: Sequence[Path]) -> None:
    problem = problem_of([*_JAVAC, "-cp", str(library), "-d", str(made), *map(str, sources)])
    if problem is None:
        return
    error = next((line for line in problem.splitlines() if _ERROR in line), problem.strip().partition("\n")[0])
    symbol = _SYMBOL.search(problem)
    raise EnvironmentFault(
        f"members cannot be compiled for Aeron {version}, which is too different from {USUAL_VERSION}: "
        f"{Path(error.partition(_ERROR)[0]).name}{_ERROR}{error.partition(_ERROR)[2]}"
        + (f" {symbol[1]}" if symbol and _ERROR in error else "")
    )


def _rename(made: Path, classes: Path) -> None:
    """The folder appears under its name when it is whole; that of another process is as good."""
    try:
        made.rename(classes)
    except OSError:
        if not classes.exists():
            raise
