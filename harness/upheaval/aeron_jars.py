"""Jars of Aeron: which one a version or a path names, where it is cached, and how Maven fetches it.

A version is Maven's (`1.46.7`), or that of a jar which no registry has: then the start of the jar's SHA-256 belongs to
it (`1.53.0-SNAPSHOT@0123456789abcdef`), and the same text names the same bytes for as long as they are in the cache.
Knows no classes of ours.
"""

import hashlib
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from upheaval.errors import EnvironmentFault, UsageError
from upheaval.user_folders import cache_folder, home_folder
from upheaval_chaos.programs import run_program
from upheaval_node.suggestions import did_you_mean

USUAL_VERSION: Final = "1.51.0"
OLDEST: Final = "1.44.1"
"""Older versions lack counters and methods that the member program needs."""
SHA256: Final[Mapping[str, str]] = {
    "1.51.0": "9686a7c6bb3c464f7ac76ceaf7a0c67249e3499aa8142872a6d1b2f398bca458",
    "1.49.3": "3325d49681ea05bd0b3efd16347fb381d53b62e77a7f5176a116d87cf4d4817e",
    "1.47.4": "3c7737bdc458235ac825a9eb372cfbc02144f739f33d9329acf18efa83bc4e07",
    "1.47.3": "2b9a55bc76348e5b6e7a81234eff2dafdcff12d4f09212e3804f50c3e9ad379d",
    "1.46.9": "1e52197d01dbde5284efbddc1376d665f0269149070fdaa152a1f094f2d2bebc",
    "1.44.1": "3bcd1b5a9ec5ea6461de67b5ce7ce97c57c5129bef3158cbe0fac0b7bfb716ad",
}
"""The pinned versions, those of the track record, the newest first: no other bytes are taken for them."""
_DIGEST_LENGTH: Final = 16
_VERSION: Final = re.compile(rf"(\d+)\.(\d+)\.(\d+)([.-][\w.-]+)?(@[0-9a-f]{{{_DIGEST_LENGTH}}})?", re.ASCII)
_SNAPSHOT: Final = "-SNAPSHOT"
_PRE_RELEASES: Final = ("alpha", "beta", "milestone", "m0", "rc", "cr", "snapshot")
"""Qualifiers of builds before the release; with digits filled up."""
_BUILT: Final = "aeron-all/build/libs"
"""Where a build of Aeron's sources puts the jar."""
_NOT_CLASSES: Final = ("sources", "javadoc", "tests")
_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_MANIFEST: Final = "META-INF/MANIFEST.MF"
_HAS: Final = ("io/aeron/cluster/ConsensusModule.class", "io/aeron/driver/MediaDriver.class")
_UNKNOWN_TO_MAVEN: Final = ("Could not find artifact", "was not found in")
"""What Maven prints of a version that its registry has not, and of one that it has not found a while ago."""
_NOTE: Final = re.compile(r"Picked up \w+: |.{1,60} VM warning: ")
_MAVEN: Final = ("mvn", "-B", "-q", "-Dstyle.color=never", f"{_PLUGIN}:copy")


def canonical_version(text: str = "") -> str:
    """The version that a text names: empty for the usual one, Maven's, or a path of a jar or of a build of Aeron.

    A jar that a path names is put into the cache. Raises `UsageError` for what is neither, is no jar of Aeron, or is
    older than `OLDEST`.
    """
    if not text:
        return USUAL_VERSION
    if is_version(text):
        _require_new_enough(text, f"Aeron {text}")
        return take_jar(_in_maven(text)) if text.endswith(_SNAPSHOT) else text
    if not Path(text).exists() and os.sep not in text and not text.endswith(".jar"):
        hint = did_you_mean(text, SHA256)
        raise UsageError(f"unknown version {text!r} of aeron: use one like {USUAL_VERSION}, or the path of a jar{hint}")
    return take_jar(Path(text))


def versions_of(text: str) -> tuple[str, ...]:
    """The canonical versions that a text with commas names, one a member; a single one is that of all members.

    A path that exists may have commas itself. Raises `UsageError` as `canonical_version` does, and where one of
    several is empty.
    """
    versions = _parts(text)
    if len(versions) > 1 and "" in versions:
        raise UsageError(f"versions {text!r} of aeron: one is missing beside a comma")
    return tuple(map(canonical_version, versions))


def _parts(text: str) -> list[str]:
    """Between the commas; as many pieces as possible make one part where that is a path which exists."""
    pieces, parts = text.split(","), []
    while pieces:
        ends = range(len(pieces), 1, -1)
        end = next((end for end in ends if Path(",".join(pieces[:end])).exists()), 1)
        parts.append(",".join(pieces[:end]))
        del pieces[:end]
    return parts


def is_version(text: str) -> bool:
    """Whether a text is a version, of Maven or of a jar in the cache."""
    return _VERSION.fullmatch(text) is not None


def order_of(version: str) -> tuple[int, int, int, int, str]:
    """By which versions are older and newer, as Maven has it: numbers, then pre-releases before the release.

    Builds of one number have the same order, whatever their digests.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ValueError(f"{version!r} is not a version")
    qualifier = re.sub(r"\d+", lambda digits: digits[0].zfill(9), (match[4] or "").lower())
    stage = 0 if not qualifier else -1 if qualifier[1:].startswith(_PRE_RELEASES) else 1
    return int(match[1]), int(match[2]), int(match[3]), stage, qualifier[1:]


def numbers_of(version: str) -> tuple[int, int, int]:
    """Major, minor and patch."""
    return order_of(version)[:3]


def jar_path(version: str) -> Path:
    """The place of a version's jar in the cache, cached or not."""
    return cache_folder() / f"aeron-all-{version}.jar"


@cache
def jar(version: str = USUAL_VERSION) -> Path:
    """The jar of a version, fetched unless it is cached. Raises `HarnessError` with why it cannot be had."""
    path = jar_path(version)
    if path.exists() and _is_of(version, digest_of(path)):
        return path
    if "@" in version:
        raise UsageError(f"the jar of Aeron {version} is missing from {path.parent}: name its path, aeron:PATH")
    _fetch(version, path)
    return path


def versions_at_hand() -> list[str]:
    """Those whose jar is in the cache or in Maven's repository of the user, the newest first. Reads names alone."""
    files = [*cache_folder().glob("aeron-all-*.jar"), *_in_maven("*").parent.parent.glob("*/aeron-all-*.jar")]
    versions = {file.stem.removeprefix("aeron-all-") for file in files if _has_classes(file)}
    usable = [version for version in versions if is_version(version) and numbers_of(version) >= numbers_of(OLDEST)]
    return sorted(usable, key=lambda version: (order_of(version), version), reverse=True)


@cache
def jar_digest(version: str) -> str:
    """The SHA-256 of a version's jar. Raises as `jar` does."""
    return digest_of(jar(version))


def take_jar(path: Path) -> str:
    """Put a jar that the user has into the cache; its version, which its digest or else its manifest says.

    `path` may be a folder of Aeron's sources with a jar built in it. Raises `UsageError` for what is no jar of Aeron.
    """
    file = _built_jar(path) if path.is_dir() else path
    try:
        digest = digest_of(file)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    pinned = next((version for version, known in SHA256.items() if digest == known), None)
    version = pinned or f"{_version_in(file)}@{digest[:_DIGEST_LENGTH]}"
    if not is_version(version):
        raise UsageError(f"{file} has no version like {USUAL_VERSION} in its manifest: it is not a jar aeron-all")
    _require_new_enough(version, f"{file}, Aeron {version.partition('@')[0]},")
    if not jar_path(version).exists() or digest_of(jar_path(version)) != digest:
        put_file(file, jar_path(version))
    return version


def digest_of(path: Path) -> str:
    """The SHA-256 of a file. Raises `OSError`."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def put_file(source: Path, path: Path) -> None:
    """Copy a file into the cache, where it appears when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        shutil.copyfile(source, Path(folder) / path.name).replace(path)


def problem_of(command: Sequence[str], folder: str | None = None) -> str | None:
    """What a program in Java that failed has printed, without notes; None of one that did not fail."""
    done = run_program(command, folder=folder, is_joined=True)
    return "\n".join(without_notes(done.stdout)) if done.returncode else None


def without_notes(output: str) -> list[str]:
    """The lines that a Java program printed, without blank ones and the virtual machine's notes, which show options."""
    return [line for line in output.splitlines() if line.strip() and not _NOTE.match(line)]


def _is_of(version: str, digest: str) -> bool:
    _, _, start = version.partition("@")
    return SHA256.get(version, digest) == digest and digest.startswith(start)


def _require_new_enough(version: str, what: str) -> None:
    if numbers_of(version) < numbers_of(OLDEST):
        raise UsageError(f"{what} is too old: members run on {OLDEST} and later")


def _built_jar(folder: Path) -> Path:
    """The newest jar that a build has left in a folder of Aeron's sources."""
    built = [path for path in _jars_in(folder) if _has_classes(path)]
    if not built:
        raise UsageError(f"{folder} has no aeron-all-*.jar: build it with `./gradlew :aeron-all:shadowJar`")
    return max(built, key=lambda path: path.stat().st_mtime_ns)


def _has_classes(file: Path) -> bool:
    return file.stem.rpartition("-")[2] not in _NOT_CLASSES


def _jars_in(folder: Path) -> Iterator[Path]:
    for place in (folder, folder / _BUILT):
        yield from place.glob("aeron-all-*.jar")


def _version_in(file: Path) -> str:
    """By its manifest. Raises `UsageError` for a file that is no jar, or one without Aeron Cluster."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = set(archive.namelist())
            manifest = archive.read(_MANIFEST).decode(errors="replace") if _MANIFEST in names else ""
    except (zipfile.BadZipFile, zlib.error, OSError) as error:
        raise UsageError(f"{file} is not a jar: {error}") from error
    missing = [name for name in _HAS if name not in names]
    if missing:
        raise UsageError(f"{file} is not a jar aeron-all: it has no {missing[0]}")
    match = re.search(r"^Implementation-Version: *(\S+)", manifest, re.MULTILINE)
    return match[1] if match else ""


def _in_maven(version: str) -> Path:
    """Where Maven's own repository of the user has a jar, or would have it."""
    return home_folder() / ".m2/repository/io/aeron/aeron-all" / version / f"aeron-all-{version}.jar"


def _fetch(version: str, path: Path) -> None:
    """Put the jar into the cache."""
    in_repository = _in_maven(version)
    if in_repository.is_file() and _is_of(version, digest_of(in_repository)):
        put_file(in_repository, path)
        return
    if shutil.which("mvn") is None:
        raise EnvironmentFault(
            f"no jar of Aeron {version}: name its path (`--system aeron:PATH`, for pytest "
            "`-o upheaval_system=aeron:PATH`), or install Maven, which fetches it (Debian: maven)"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        artifact = f"io.aeron:aeron-all:{version}"
        command = [*_MAVEN, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
        problem = problem_of(command, folder)
        if problem is not None:
            raise _cannot_fetch(version, problem)
        fetched = Path(folder) / path.name
        if not _is_of(version, digest_of(fetched)):
            raise EnvironmentFault(f"{artifact} has the digest {digest_of(fetched)} instead of {SHA256[version]}")
        fetched.replace(path)


def _cannot_fetch(version: str, problem: str) -> EnvironmentFault | UsageError:
    if any(sentence in problem for sentence in _UNKNOWN_TO_MAVEN):
        return UsageError(
            f"Maven has no Aeron {version} (io.aeron:aeron-all): use a published version, or the path of a jar"
        )
    lines = [line for line in problem.splitlines() if "ERROR" in line]
    return EnvironmentFault(
        f"mvn cannot fetch io.aeron:aeron-all:{version}: {lines[0] if lines else 'it gave no reason'}"
    )
