"""How other programs are run, and how what they print is read, whatever the locale and the streams of the caller.

Bytes that are no UTF-8 are escaped, so no program can break its reader by what it prints.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ENCODING: Final = "utf-8"
ERRORS: Final = "backslashreplace"
LOCALE: Final = {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1", "PYTHONIOENCODING": f"{ENCODING}:{ERRORS}"}
"""Variables by which a program prints English in UTF-8, and a Python program any text that it has."""


def printed(output: bytes | bytearray) -> str:
    """The text of a program's output."""
    return output.decode(ENCODING, ERRORS)


def environment(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a program: those of this process but for its locale, and `settings`."""
    return {**os.environ, **LOCALE, **(settings or {})}


def run_program(
    command: Sequence[str],
    *,
    folder: Path | str | None = None,
    limit_s: float | None = None,
    settings: Mapping[str, str] | None = None,
    is_joined: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run it to its end, without input; `is_joined`: its errors are in its output, in the order in which it printed.

    Raises what `subprocess.run` does for a program that cannot be started or takes longer than the limit.
    """
    return subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if is_joined else subprocess.PIPE,
        encoding=ENCODING,
        errors=ERRORS,
        env=environment(settings),
        timeout=limit_s,
        check=False,
    )
