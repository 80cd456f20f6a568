"""Takes the commands out of a page of the documentation and runs them as a shell does, in the order of the page."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
TIMEOUT_S: Final = 600.0
_FENCE: Final = "```"

# Not every machine that runs tests has curl.
_CURL: Final = """
import sys, urllib.request
assert sys.argv[1] == "--silent"
with urllib.request.urlopen(sys.argv[2], timeout=20) as answer:
    sys.stdout.write(answer.read().decode())
"""


class Block(NamedTuple):
    """One block of commands: where it begins, what it is for (`sh`, `sh docker`, `json`, ..) and its lines."""

    line: int
    info: str
    text: str


def blocks_of(page: str) -> list[Block]:
    """All fenced blocks of a page in docs/."""
    found: list[Block] = []
    begin, info, lines = 0, "", list[str]()
    for number, line in enumerate((DOCS / page).read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith(_FENCE):
            lines.append(line)
        elif begin:
            found.append(Block(begin, info, "\n".join(lines)))
            begin = 0
        else:
            begin, info, lines = number, line.removeprefix(_FENCE), []
    assert begin == 0, f"{page}:{begin}: a block without an end"
    return found


def run_block(page: str, block: Block, folder: Path) -> str:
    """What the commands print; each of them has to succeed. They find `upheaval`, and `curl --silent URL` of ours."""
    programs = folder / "programs"
    if not programs.exists():
        programs.mkdir()
        (programs / "curl").write_text(f"#!{sys.executable}\n{_CURL}")
        (programs / "curl").chmod(0o755)
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", block.text],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{page}:{block.line}: {done.stdout}{done.stderr}"
    return done.stdout
