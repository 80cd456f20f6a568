"""A disk that is full when a cluster starts: one line that says so, exit status 2, and no process that stays."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy

SCRIPT = """
mount -t tmpfs -o size="$1" tmpfs "$2" || exit 99
shift 2
exec "$@"
"""


def on_small_disk(size: str, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The command line with a tmpfs of this size on the folder, in a mount name space of its own."""
    unshare = shutil.which("unshare")
    assert unshare is not None, "unshare is part of util-linux"
    command = [sys.executable, "-m", "upheaval.cli.main", *arguments]
    return subprocess.run(
        [unshare, "--user", "--map-root-user", "--mount", "sh", "-c", SCRIPT, "sh", size, str(folder), *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(("size", "left"), [("4k", 0), ("300k", 0), ("48m", 48)])
def test_one_line_says_that_the_disk_is_full(size: str, left: int, tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    done = on_small_disk(size, folder, "up", "--dir", str(folder / "run"))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"has {left} MiB left: a run needs 64 MiB" in done.stderr
    assert not [entry for entry in Path("/proc").glob("[0-9]*/cmdline") if str(folder) in _text(entry)]


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
