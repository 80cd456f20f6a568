"""Runs other programs and reads their output, independently of the caller's locale and streams.

Bytes that are not UTF-8 are escaped, so the output of a program cannot break its reader.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ENCODING: Final = "utf-8"
ERRORS: Final = "backslashreplace"
LOCALE: Final = {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1", "PYTHONIOENCODING": f"{ENCODING}:{ERRORS}"}
"""Variables that make a program print English in UTF-8, and a Python program print any text."""


def printed(output: bytes | bytearray) -> str:
    """The text of a program's output."""
    return output.decode(ENCODING, ERRORS)


def environment(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a program: those of this process, except its locale, and `settings`."""
    return {**os.environ, **LOCALE, **(settings or {})}


def run_program(
    command: Sequence[str],
    *,
    folder: Path | str | None = None,
    limit_s: float | None = None,
    settings: Mapping[str, str] | None = None,
    is_joined: bool = False,
    text: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. `is_joined`: its errors are part of its output, in order. `text`: its input.

    Raises the errors of `subprocess.run` for a program that cannot start or exceeds the time limit.
    """
    return subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL if text is None else None,
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if is_joined else subprocess.PIPE,
        encoding=ENCODING,
        errors=ERRORS,
        env=environment(settings),
        timeout=limit_s,
        check=False,
    )
