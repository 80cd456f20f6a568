"""What other programs print: how they are made to print it, and how it is read, whatever the locale of the caller.

Bytes that are no UTF-8 are escaped: no program can break its reader by what it prints.
"""

import os
from typing import Final

ENCODING: Final = "utf-8"
ERRORS: Final = "backslashreplace"
LOCALE: Final = {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1", "PYTHONIOENCODING": f"{ENCODING}:{ERRORS}"}
"""Variables by which a program prints UTF-8 in English, and no text ends a Python program that prints it."""


def printed(output: bytes) -> str:
    """The text of a program's output."""
    return output.decode(ENCODING, ERRORS)


def environment() -> dict[str, str]:
    """The variables of a program that is started: those of this process, but for its locale."""
    return {**os.environ, **LOCALE}
