"""Runs the programs of the host that images need (debootstrap, tar, go, pip): each failure becomes one line."""

import errno
import re
from collections.abc import Mapping, Sequence

from upheaval.errors import EnvironmentFault
from upheaval_chaos.programs import run_program

_NO_SPACE = "no space left on device"
_UNREACHED = re.compile(r"connection broken by|Could not fetch URL|Failed to establish a new connection")


def run(command: Sequence[str], name: str, settings: Mapping[str, str] | None = None) -> None:
    """Run it to its end, quietly, with `settings` as variables of its own.

    Raises `EnvironmentFault` with the line of its output that says why it failed.
    """
    try:
        done = run_program(command, settings=settings, is_joined=True)
    except OSError as error:
        raise EnvironmentFault(f"{name} cannot be run: {error.strerror}") from error
    if done.returncode:
        raise EnvironmentFault(f"{name} failed: {reason_in(done.stdout)}")


def reason_in(output: str) -> str:
    """The one line of a program's output that says why it failed: a full disk, an error, or else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for line in lines:
        if _NO_SPACE in line.lower():
            return line
    errors = [line for line in lines if line.startswith(("ERROR:", "E: ", "error:"))]
    reason = (errors or lines or ["it printed nothing"])[-1]
    if any(_UNREACHED.search(line) for line in lines):
        return f"{reason} (no package index can be reached: name one by PIP_INDEX_URL, or a folder by PIP_FIND_LINKS)"
    return reason


def explain(error: OSError) -> str:
    """An error of the file system in words."""
    if error.errno == errno.ENOSPC:
        return f"{_NO_SPACE}: {error.filename or 'where temporary files are kept (TMPDIR)'}"
    return f"{error.strerror}: {error.filename}"
