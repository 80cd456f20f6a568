"""The run folders of tests: one each, below `runs`. This module knows neither pytest nor clusters."""

import contextlib
import os
import re
import shlex
import shutil
import time
from pathlib import Path
from typing import Final

from upheaval.errors import EnvironmentFault, HarnessError, UsageError
from upheaval.records import RunFolder
from upheaval.report.logs import last_lines

LAST_LINES: Final = 5


def new_folder(runs: Path, test: str) -> Path:
    """A new folder below `runs`: tests of several workers never share one.

    Raises `UsageError` when `runs` is no folder, `EnvironmentFault` when it takes none.
    """
    name = re.sub(r"[^\w.-]+", "-", test)[:60].strip("-")
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{worker}-{os.getpid()}"
    number = 0
    while True:
        number += 1
        folder = runs / f"{name}-{stamp}-{number}"
        try:
            folder.mkdir(parents=True)
        except (FileExistsError, FileNotFoundError) as error:
            if os.path.lexists(runs) and not runs.is_dir():
                raise _not_a_folder(runs) from error
            # Taken, or another worker removed an empty `runs` just now.
            continue
        except NotADirectoryError as error:
            raise _not_a_folder(runs) from error
        except OSError as error:
            where = "start pytest in a folder that it may write to"
            raise EnvironmentFault(f"cannot make {folder}: {error.strerror}: {where}") from error
        return folder


def _not_a_folder(runs: Path) -> Exception:
    return UsageError(f"{runs} is not a folder: run folders of tests go there")


def remove_folder(folder: Path) -> None:
    """Remove it, and `runs` if that is empty then."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()


def last_lines_of(folder: str) -> list[str]:
    """The last log lines of each member, and how to see the rest."""
    try:
        logged = last_lines(RunFolder(folder), LAST_LINES)
    except HarnessError:
        # The run had hardly begun.
        return []
    lines = [line for log_line in logged for line in str(log_line).splitlines()]
    return [*lines, f"logs of the members: {shlex.join(['upheaval', 'logs', folder])}"]
