"""Aeron's programs and our member program for them: jars pinned by version and digest, classes compiled against one.

Maven fetches a jar from the machine's own package source into a cache of the user, and javac compiles `images/aeron`
beside it; what is there is neither fetched nor compiled again. Run it to have them and to see where they are.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = "1.51.0"
SHA256 = {
    "1.51.0": "9686a7c6bb3c464f7ac76ceaf7a0c67249e3499aa8142872a6d1b2f398bca458",
    "1.49.3": "3325d49681ea05bd0b3efd16347fb381d53b62e77a7f5176a116d87cf4d4817e",
    "1.47.4": "3c7737bdc458235ac825a9eb372cfbc02144f739f33d9329acf18efa83bc4e07",
}
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "upheaval"
PROJECT = Path(__file__).resolve().parents[1] / "images" / "aeron"


class Unavailable(Exception):
    """A jar cannot be had, or classes cannot be compiled; says why in one line."""


def jar_path(version: str) -> Path:
    """Where the jar of a version lies, if it is there."""
    return CACHE / f"aeron-all-{version}.jar"


JAR = jar_path(VERSION)


def jar(version: str = VERSION) -> Path:
    """The jar of a version, fetched unless it is there. Raises `Unavailable`."""
    if version not in SHA256:
        raise Unavailable(f"unknown version {version}: use {', '.join(SHA256)}")
    path = jar_path(version)
    if not path.exists() or digest(path) != SHA256[version]:
        fetch(version)
    return path


def member_classes(version: str = VERSION, *, tests: bool = False) -> Path:
    """A folder with the classes of `images/aeron` for the jar of a version, with those of its tests where wanted.

    Its name says of which sources it is, so that a change makes another one. Raises `Unavailable`.
    """
    library = jar(version)
    sources = sorted((PROJECT / "src").rglob("*.java")) if tests else sorted((PROJECT / "src/main").rglob("*.java"))
    told = hashlib.sha256()
    for source in sources:
        told.update(f"{source.relative_to(PROJECT)}\0".encode() + source.read_bytes() + b"\0")
    classes = CACHE / f"aeron-member-{version}-{told.hexdigest()[:16]}"
    if not classes.exists():
        compile_into(classes, library, sources)
    return classes


def compile_into(classes: Path, library: Path, sources: list[Path]) -> None:
    """The folder appears under its name when it is whole."""
    if shutil.which("javac") is None:
        raise Unavailable("javac is missing (Debian: openjdk-17-jdk-headless)")
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        made = Path(folder) / "classes"
        # The second option is for `sun.misc.Signal`, of which javac warns otherwise.
        options = ["-Xlint:all", "-XDignore.symbol.file", "-encoding", "UTF-8", "-cp", str(library), "-d", str(made)]
        problem = said_when_failed(["javac", *options, *map(str, sources)])
        if problem is not None:
            raise Unavailable(f"javac cannot compile {PROJECT}:\n{problem}")
        try:
            made.rename(classes)
        except OSError:
            if not classes.exists():
                raise


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fetch(version: str) -> None:
    """Put the jar into the cache. Raises `Unavailable`."""
    if shutil.which("mvn") is None:
        raise Unavailable("mvn is missing (Debian: maven)")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        artifact = f"io.aeron:aeron-all:{version}"
        command = ["mvn", "-B", "-q", f"{PLUGIN}:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
        problem = said_when_failed(command, cwd=folder)
        if problem is not None:
            lines = [line for line in problem.splitlines() if "ERROR" in line]
            raise Unavailable(f"mvn cannot fetch {artifact}: {lines[0] if lines else 'it gave no reason'}")
        found = Path(folder) / jar_path(version).name
        if digest(found) != SHA256[version]:
            raise Unavailable(f"{artifact} has the digest {digest(found)} instead of {SHA256[version]}")
        found.replace(jar_path(version))


def said_when_failed(command: list[str], cwd: str | None = None) -> str | None:
    """What the command said, None when it did what it should."""
    done = subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.stdout if done.returncode else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default=VERSION, help=f"of Aeron: {', '.join(SHA256)}")
    parser.add_argument("--all", action="store_true", help="have the jars of all versions")
    parser.add_argument("--member", action="store_true", help="the class path of the member program: jar and classes")
    arguments = parser.parse_args()
    try:
        for version in SHA256 if arguments.all else ():
            jar(version)
        found = [jar(arguments.version)]
        if arguments.member:
            found.append(member_classes(arguments.version))
    except Unavailable as problem:
        print(f"aeron_jar: {problem}", file=sys.stderr)
        return 2
    print(os.pathsep.join(map(str, found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
