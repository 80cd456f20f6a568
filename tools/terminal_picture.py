"""Run a command in a terminal and write a picture of it: docs/images/terminal.png by default, of a run in containers.

python tools/terminal_picture.py needs Chromium; the default command needs a Docker engine.
"""

import argparse
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
from fcntl import ioctl
from html import escape
from pathlib import Path
from termios import TIOCSWINSZ
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PICTURE: Final = ROOT / "docs" / "images" / "terminal.png"
COMMAND: Final = "upheaval demo --runtime docker --dir runs/demo"
COLUMNS: Final = 112
LINE_PX: Final = 18
CHARACTER_PX: Final = 8.43
"""DejaVu Sans Mono at 14 px."""
MARGIN_PX: Final = 18
_PROMPT: Final = "\x1b[1m$"
_PAINT: Final = re.compile(r"\x1b\[([\d;]*)m")
_STYLES: Final = {"32": "color:#7ec699", "33": "color:#e0c068", "31": "color:#f2777a", "1": "font-weight:bold"}
_CLOCK: Final = re.compile(r"^(\[ *[\d.]+ s\])")
_PAGE: Final = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: {margin}px; background: #14171c; color: #d8dce2; }}
pre {{ margin: 0; font: 14px/{line}px "DejaVu Sans Mono"; white-space: pre; }}
i {{ color: #7a8494; font-style: normal; }}
</style><pre>{text}</pre>
"""


def in_terminal(command: str, columns: int, folder: Path) -> tuple[str, int]:
    """What the command writes to a terminal of that width, and its exit status."""
    controller, terminal = pty.openpty()
    ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns)}
    environment.pop("NO_COLOR", None)
    started = subprocess.Popen(
        shlex.split(command), stdin=terminal, stdout=terminal, stderr=terminal, cwd=folder, env=environment
    )
    os.close(terminal)
    chunks = []
    while chunk := _read(controller):
        chunks.append(chunk)
    os.close(controller)
    return b"".join(chunks).decode().replace("\r\n", "\n"), started.wait()


def html_of(text: str) -> str:
    """The text with its colours, and the time at the beginning of lines in a weaker one."""
    parts, is_open = [], False
    for number, part in enumerate(_PAINT.split(text)):
        if number % 2 == 0:
            parts.append("\n".join(_CLOCK.sub(r"<i>\1</i>", line) for line in escape(part).split("\n")))
            continue
        styles = [_STYLES[code] for code in part.split(";") if code in _STYLES]
        parts.append("</span>" * is_open + (f'<span style="{";".join(styles)}">' if styles else ""))
        is_open = bool(styles)
    return "".join(parts) + "</span>" * is_open


def write_picture(path: Path, text: str, columns: int) -> None:
    """As Chromium shows it, without a margin that is not ours."""
    lines = text.count("\n") + 1
    width, height = round(columns * CHARACTER_PX) + 2 * MARGIN_PX, lines * LINE_PX + 2 * MARGIN_PX
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "terminal.html"
        page.write_text(_PAGE.format(margin=MARGIN_PX, line=LINE_PX, text=html_of(text)), encoding="utf-8")
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={folder}/profile", f"--window-size={width},{height}"]
        command += [f"--screenshot={path}", page.as_uri()]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status of the command; the picture is written only where that is 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default=COMMAND, help=f"what to run (default: {COMMAND})")
    parser.add_argument("--out", type=Path, default=PICTURE, help="the picture (default: docs/images/terminal.png)")
    parser.add_argument("--columns", type=int, default=COLUMNS, help=f"width of the terminal (default {COLUMNS})")
    options = parser.parse_args(arguments)
    if shutil.which("chromium") is None:
        parser.error("chromium is not on the path: install it (Debian: chromium)")
    with tempfile.TemporaryDirectory(prefix="upheaval-picture-") as name:
        folder = Path(name).resolve()
        output, status = in_terminal(options.command, options.columns, folder)
    if status:
        print(output, file=sys.stderr)
        print(f"{options.command}: exit status {status}: no picture is written", file=sys.stderr)
        return status
    shown = output.replace(f"{folder}/", "~/").rstrip("\n")
    session = f"{_PROMPT} {options.command}\x1b[0m\n{shown}\n{_PROMPT}\x1b[0m"
    write_picture(options.out.absolute(), session, options.columns)
    return 0


def _read(controller: int) -> bytes:
    """Empty at the end, which Linux reports as an error of a terminal whose other end is closed."""
    try:
        return os.read(controller, 65536)
    except OSError:
        return b""


if __name__ == "__main__":
    sys.exit(main())
