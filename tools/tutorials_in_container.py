"""Follow tutorials in an empty Debian container, as a reader does, and print what that takes.

The container has Python's `venv`, for the tutorial of Aeron also a JDK and Maven, and no network: pip installs from a
folder of wheels and Maven from a repository, both filled here. Needs an engine, and debootstrap and root once for each
base.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / name) for name in ("node", "harness", "chaos", "tests")]

from support.pages import PageBlock, page_blocks  # noqa: E402
from support.stranger import build_wheel  # noqa: E402
from upheaval.aeron_programs import READY_MADE, classes_name, jar, member_classes  # noqa: E402
from upheaval.cli.tables import table  # noqa: E402
from upheaval.images.bases import require_base  # noqa: E402
from upheaval.images.catalogue import DEBIAN_SUITE, DebianBase  # noqa: E402
from upheaval.runtimes.docker.engine import Client, connected  # noqa: E402
from upheaval_node.suggestions import did_you_mean  # noqa: E402

WHEELS: Final = "/wheels"
MAVEN: Final = "/root/.m2"
SCRIPT: Final = "/script"
PLACEHOLDER: Final = "path/to/upheaval"
OFFLINE: Final = "<settings><offline>true</offline></settings>\n"
LIMIT_S: Final = 3600
PIP: Final = {
    "PIP_NO_INDEX": "1",
    "PIP_FIND_LINKS": WHEELS,
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
}
PYTHON: Final = ("python3", "python3-venv")
JAVA: Final = (*PYTHON, "openjdk-17-jdk-headless", "maven")
OF_AERON: Final = ("1.51.0", "1.49.3")
LEFT_OUT: Final = frozenset({"nightly", "spark"})
"""Marks of blocks that take what the page does not ask of its reader."""


@dataclass(frozen=True, slots=True)
class Tutorial:
    """A page and the Debian packages that it says a reader needs."""

    page: str
    packages: tuple[str, ...]

    @property
    def name(self) -> str:
        """The stem of the page."""
        return Path(self.page).stem

    @property
    def base(self) -> DebianBase:
        """A container image with these packages and nothing of upheaval."""
        kind = "java" if self.packages == JAVA else "python"
        return DebianBase(f"upheaval/base-tutorial-{kind}:{DEBIAN_SUITE}", self.packages)

    def steps(self) -> list[PageBlock]:
        """Its files and blocks of commands, in the order of the page."""
        blocks = [b for b in page_blocks() if b.page == self.page and not LEFT_OUT & b.marks.keys()]
        return [block for block in blocks if "file" in block.marks or block.language == "sh"]


TUTORIALS: Final = (
    Tutorial("docs/tutorials/first-verdict.md", PYTHON),
    Tutorial("docs/tutorials/python-service.md", PYTHON),
    Tutorial("docs/tutorials/aeron-cluster.md", JAVA),
)


@dataclass(frozen=True, slots=True)
class Walk:
    """What it took to follow a tutorial; `output` is what its commands printed."""

    steps: int
    processor_s: float
    minutes: float
    status: int
    output: str


def script_of(steps: list[PageBlock], wheel: str) -> str:
    """One shell for all of them, as a reader has one; each command has to succeed."""
    lines = ["set -eo pipefail"]
    for step in steps:
        lines.append(f"echo '--- {step.place}'")
        if "file" in step.marks:
            lines += [f"cat > {shlex.quote(step.marks['file'])} <<'END-OF-FILE'", step.block.text, "END-OF-FILE"]
        else:
            lines.append(step.block.text.replace(PLACEHOLDER, f"{WHEELS}/{wheel}"))
    return "\n".join(lines) + "\n"


def count_of(steps: list[PageBlock]) -> int:
    """A file is a step, and so is each command."""
    commands = [line for step in steps if "file" not in step.marks for line in step.block.text.splitlines()]
    return sum("file" in step.marks for step in steps) + len([line for line in commands if line.strip()])


def make_wheels(folder: Path, work: Path) -> str:
    """Put this tree's wheel, with its classes for Aeron, and pytest into the folder, with their dependencies.

    Returns the wheel's name.
    """
    classes = work / "source" / READY_MADE
    classes.mkdir(parents=True)
    for version in OF_AERON:
        made = member_classes(version)
        shutil.make_archive(str(classes / classes_name(version)), "zip", made)
    wheel = build_wheel(work)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    subprocess.run([*pip, str(wheel), "pytest", "--dest", str(folder)], check=True)
    return wheel.name


def make_repository(folder: Path, work: Path) -> None:
    """Have Maven put what the build of the example takes into the folder, with the other jar of Aeron."""
    project = Path(shutil.copytree(ROOT / "examples" / "java-stock", work / "stock"))
    repository = folder / "repository"
    subprocess.run(["mvn", "-B", "-q", f"-Dmaven.repo.local={repository}", "package"], cwd=project, check=True)
    for version in OF_AERON:
        place = repository / "io/aeron/aeron-all" / version
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(jar(version), place / f"aeron-all-{version}.jar")
    for record in repository.rglob("_remote.repositories"):
        record.unlink()  # else Maven refuses what came from a source that it cannot ask
    (folder / "settings.xml").write_text(OFFLINE, encoding="utf-8")


@contextmanager
def container(client: Client, image: str, mounts: dict[Path, str]) -> Iterator[Any]:
    """A container without a network, which ends by itself if this program does not end it."""
    with tempfile.TemporaryDirectory() as scratch:
        script = Path(scratch)
        places = {**mounts, script: SCRIPT}
        binds = {str(source): {"bind": target, "mode": "rw"} for source, target in places.items()}
        made = client.containers.run(
            image,
            ["sleep", str(LIMIT_S)],
            detach=True,
            auto_remove=True,
            init=True,
            network_mode="none",
            volumes=binds,
            environment=PIP,
        )
        try:
            yield made, script
        finally:
            made.remove(force=True)


def follow(client: Client, tutorial: Tutorial, wheel: str, mounts: dict[Path, str]) -> Walk:
    """Run its blocks in a new container."""
    steps = tutorial.steps()
    image = require_base(client, tutorial.base, lambda text: print(text, file=sys.stderr))
    with container(client, image, mounts) as (made, script):
        (script / "tutorial.sh").write_text(script_of(steps, wheel), encoding="utf-8")
        begin = time.monotonic()
        status, output = made.exec_run(["bash", f"{SCRIPT}/tutorial.sh"], workdir="/root")
        minutes = (time.monotonic() - begin) / 60
        spent_ns = made.stats(stream=False)["cpu_stats"]["cpu_usage"]["total_usage"]
    return Walk(count_of(steps), spent_ns / 1e9, minutes, status, output.decode(errors="backslashreplace"))


def main(arguments: list[str] | None = None) -> int:
    """Returns 0 if every command of every tutorial succeeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [tutorial.name for tutorial in TUTORIALS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(known)} (default: all)")
    names = parser.parse_args(arguments).names
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"unknown tutorial {unknown[0]!r}: use {', '.join(known)}{did_you_mean(unknown[0], known)}")
    chosen = [tutorial for tutorial in TUTORIALS if not names or tutorial.name in names]
    rows, status = [["tutorial", "steps", "processor s", "minutes", "result"]], 0
    with tempfile.TemporaryDirectory() as folder, connected() as client:
        work, wheels, maven = (Path(folder, name) for name in ("work", "wheels", "maven"))
        for place in (work, wheels, maven):
            place.mkdir()
        wheel = make_wheels(wheels, work)
        mounts = {wheels: WHEELS}
        if any(tutorial.packages == JAVA for tutorial in chosen):
            make_repository(maven, work)
            mounts[maven] = MAVEN
        for tutorial in chosen:
            walk = follow(client, tutorial, wheel, mounts)
            if walk.status:
                print(f"{tutorial.name}: exit status {walk.status}\n{walk.output}", file=sys.stderr)
            status = status or walk.status
            result = "works" if walk.status == 0 else "fails"
            rows.append([tutorial.name, str(walk.steps), f"{walk.processor_s:.0f}", f"{walk.minutes:.1f}", result])
    print(table(rows))
    return 1 if status else 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    sys.exit(main())
