"""Aeron's programs, by which the files of our members are checked: one jar, pinned by version and digest.

Maven fetches it from the machine's own package source into a cache of the user; once it is there nothing is fetched.
Run it to have the jar and to see where it is.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = "1.51.0"
SHA256 = "9686a7c6bb3c464f7ac76ceaf7a0c67249e3499aa8142872a6d1b2f398bca458"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "upheaval"
JAR = CACHE / f"aeron-all-{VERSION}.jar"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fetch() -> str | None:
    """Put the jar into the cache. Returns why it is not there, or None."""
    if shutil.which("mvn") is None:
        return "mvn is missing (Debian: maven)"
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        artifact = f"io.aeron:aeron-all:{VERSION}"
        command = ["mvn", "-B", "-q", f"{PLUGIN}:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode:
            lines = [line for line in done.stdout.splitlines() if "ERROR" in line]
            return f"mvn cannot fetch {artifact}: {lines[0] if lines else 'it gave no reason'}"
        found = Path(folder) / JAR.name
        if digest(found) != SHA256:
            return f"{artifact} has the digest {digest(found)} instead of {SHA256}"
        found.replace(JAR)
    return None


def main() -> int:
    problem = None if JAR.exists() and digest(JAR) == SHA256 else fetch()
    if problem is not None:
        print(f"aeron_jar: {problem}", file=sys.stderr)
        return 2
    print(JAR)
    return 0


if __name__ == "__main__":
    sys.exit(main())
