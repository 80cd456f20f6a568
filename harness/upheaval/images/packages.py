"""Fetches an image's Python packages into a folder of the host, so that no build needs a network, an index or a proxy.

pip does the work, with the hashes of the requirements file, for the image's Python and the engine's machine. Packages
that are published as sources only are made into wheels here. Knows no engine.
"""

import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final

from upheaval.aeron_jars import jar
from upheaval.aeron_programs import AGENT, CLASSES, JAR, agent_jar, member_classes
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.images import programs
from upheaval.images.catalogue import Image
from upheaval.repository import REPOSITORY

_PIP: Final = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
_PYTHON: Final = "3.11"
ENVIRONMENT: Final = {"python_version": _PYTHON, "python_full_version": f"{_PYTHON}.0"}
"""What is not this machine's where markers of the image's packages are evaluated."""
# glibc of Debian 12; wheels for older ones run on it as well.
_GLIBC_MINORS: Final = range(36, 16, -1)
_INDEX_TIMEOUT_S: Final = 15
_OURS: Final = re.compile(r"\s*upheaval\s*([\[=<>~!;@#]|$)", re.IGNORECASE)
_OTHER_FILE: Final = re.compile(
    r"\s*(?P<option>-[rcf]|(?:--requirement|--constraint|--find-links)(?=[\s=]))(?:\s*=\s*|\s*)"
    r"""(?P<path>(?:\\.|"[^"]*"|'[^']*'|[^\s"'\\])+)"""
)
_MACHINES: Final = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


def fetch(image: Image, machine: str, folder: Path) -> Path | None:
    """Fill a new folder below `folder` with the packages that the image's requirements name, and with Aeron's jar and
    our classes for it where it has them; None without any.
    """
    target = folder / "packages"
    if image.aeron_version:
        shutil.copytree(member_classes(image.aeron_version), target / CLASSES)
        shutil.copyfile(jar(image.aeron_version), target / JAR)
        shutil.copyfile(agent_jar(image.aeron_version), target / AGENT)
        return target
    if image.requirements is None:
        return None
    target.mkdir()
    wheels, sources = split(REPOSITORY.path(image.requirements).read_text(encoding="utf-8"), image.without_wheels)
    _install(wheels, target, folder / "wheels.txt", _platform_options(machine))
    if sources:
        listed, made = folder / "sources.txt", folder / "made"
        listed.write_text(sources, encoding="utf-8")
        _pip("wheel", "--no-deps", "--require-hashes", "--wheel-dir", str(made), "-r", str(listed))
        _pip("install", *_target(target), *(str(wheel) for wheel in sorted(made.glob("*.whl"))))
    # Tests of packages: tens of megabytes, and keys and certificates among them.
    for tests in [path for path in target.rglob("tests") if path.is_dir()]:
        shutil.rmtree(tests, ignore_errors=True)
    return target


def fetch_own(requirements: Path, machine: str, folder: Path) -> Path:
    """Fill a new folder below `folder` with what a user's requirements file names, and what that needs: wheels only.

    The package `upheaval` is left out: the node's image has what of it services need. Raises `EnvironmentFault`.
    """
    target, listed = folder / "packages", folder / "own.txt"
    target.mkdir()
    lines = _lines_of(requirements.absolute(), ())
    listed.write_text("\n".join(lines) + "\n", encoding="utf-8")
    # Without a retry pip does not say that the index does not answer.
    once = ("--retries", "1", "--timeout", str(_INDEX_TIMEOUT_S))
    options = ("--target", str(target), "--no-compile", "--root-user-action=ignore", "--only-binary=:all:", *once)
    install = ("install", *options, *_platform_options(machine))
    _pip(*install, "-r", str(listed))
    while missing := _missing_of(target, lines):
        listed.write_text("".join(f"{package.name}=={package.version}\n" for package in _packages_in(target)))
        _pip(*install, "-c", str(listed), *missing)
        if missing == _missing_of(target, lines):
            raise EnvironmentFault(f"pip does not install {', '.join(missing)} for Python {_PYTHON}")
    return target


def _missing_of(target: Path, lines: Sequence[str]) -> list[str]:
    """What lines and packages need on the image's Python and pip left out: it evaluates markers on its own."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    packages = {canonicalize_name(package.name): package for package in _packages_in(target)}
    missing: dict[str, None] = {}
    looked_at: set[tuple[str, str]] = set()
    left = [(line.partition(" #")[0].partition(" --hash")[0].rstrip(" \\"), "") for line in lines]
    while left:
        text, extra = left.pop()
        try:
            need = Requirement(text)
        except InvalidRequirement:
            continue  # an option, a file or an address: nothing that has a marker
        if need.marker is not None and not need.marker.evaluate({**ENVIRONMENT, "extra": extra}):
            continue
        name = canonicalize_name(need.name)
        if name not in packages:
            if name != "upheaval":
                need.marker = None
                missing[str(need)] = None
            continue
        for wanted in {(name, wanted) for wanted in ("", *need.extras)} - looked_at:
            looked_at.add(wanted)
            left += [(text, wanted[1]) for text in packages[name].requires or ()]
    return sorted(missing)


def _packages_in(folder: Path) -> list[Distribution]:
    return list(distributions(path=[str(folder)]))


def _lines_of(requirements: Path, within: Sequence[Path]) -> list[str]:
    """The lines of a file and of those that it names by `-r`, without the package `upheaval`."""
    if requirements in within:
        raise UsageError(f"{requirements} names itself by -r: leave that line out")
    try:
        lines = requirements.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UsageError(f"{requirements} is not UTF-8 (byte {error.start}): save it as UTF-8") from None
    except OSError as error:
        raise UsageError(f"{requirements} cannot be read: {error.strerror}") from None
    ours = []
    for line in [_with_absolute_path(line, requirements.parent) for line in lines if not _OURS.match(line)]:
        named = _OTHER_FILE.match(line)
        if named is None or named["option"] not in ("-r", "--requirement") or "://" in named["path"]:
            ours.append(line)
        else:
            ours += _lines_of(Path("".join(shlex.split(named["path"]))), (*within, requirements))
    return ours


def _with_absolute_path(line: str, beside: Path) -> str:
    """A line whose file, if it names one, is found from any folder. pip looks beside the file that has the line."""
    named = _OTHER_FILE.match(line)
    if named is None:
        return line
    # pip reads options of such a file as a shell reads words.
    path = "".join(shlex.split(named["path"]))
    if path.startswith("${") or "://" in path:
        return line
    return f"{named['option']} {shlex.quote(str(beside / path))}{line[named.end() :]}"


def split(requirements: str, without_wheels: Sequence[str]) -> tuple[str, str]:
    """The entries of a requirements file in two: those with wheels, and those that are published as sources only."""
    entries = re.split(r"^(?=[A-Za-z0-9])", requirements, flags=re.MULTILINE)
    is_source = [re.split(r"[=\[ ;]", entry, maxsplit=1)[0] in without_wheels for entry in entries]
    wheels = "".join(entry for entry, source in zip(entries, is_source, strict=True) if not source)
    return wheels, "".join(entry for entry, source in zip(entries, is_source, strict=True) if source)


def _install(requirements: str, target: Path, listed: Path, options: Sequence[str]) -> None:
    listed.write_text(requirements, encoding="utf-8")
    _pip("install", *_target(target), "--require-hashes", "--only-binary=:all:", *options, "-r", str(listed))


def _target(target: Path) -> tuple[str, ...]:
    return ("--target", str(target), "--upgrade", "--no-deps", "--no-compile", "--root-user-action=ignore")


def _platform_options(machine: str) -> list[str]:
    name = _MACHINES.get(machine, machine)
    platforms = [f"manylinux_2_{minor}_{name}" for minor in _GLIBC_MINORS] + [f"manylinux2014_{name}"]
    options = [f"--platform={platform}" for platform in platforms]
    return ["--python-version", _PYTHON, "--implementation", "cp", *options]


def _pip(*arguments: str) -> None:
    programs.run([*_PIP[:3], *arguments, *_PIP[3:]], "pip", {"PIP_NO_INPUT": "1"})
