"""Write verdicts as terminals of several widths show them, with colours and without, into docs/verdicts.md.

python tools/verdict_captures.py writes the part between the marks; a test tells whether it is current.
"""

from itertools import groupby
from pathlib import Path
from typing import Final

from upheaval.checkers.promises import OwnPromise, Promise
from upheaval.checkers.verdict import Finding, NotApplicable, Report, Verdict
from upheaval.cli.screen import Screen
from upheaval.cli.verdict_text import verdict_text

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "verdicts.md"
BEGIN: Final = "<!-- captures by tools/verdict_captures.py -->"
END: Final = "<!-- end of the captures -->"
WIDTHS: Final = (60, 80, 200)
FOLDER: Final = "/home/me/runs/leader-killed"
KEPT: Final = Finding(Promise.LINEARIZABLE, Verdict.VALID, "412 results agree with the order of the log")
NOT_CHECKED: Final = NotApplicable(Promise.STANDBYS_KNOWN, "there was no standby")
REPORTS: Final = (
    Report(FOLDER, (KEPT,), (NOT_CHECKED,)),
    Report(
        FOLDER,
        (
            KEPT,
            Finding(
                Promise.LOGS_EQUAL,
                Verdict.INVALID,
                "member 0 has a SessionMessage of session 1, member 2 has padding at a position that both know to be "
                "committed",
                members=(0, 2),
                position=4096,
            ),
            Finding(OwnPromise.of("no account is overdrawn"), Verdict.UNKNOWN, "the model raised KeyError: 'ann'"),
        ),
        (NOT_CHECKED,),
    ),
)


def capture(report: Report, columns: int, *, has_colors: bool) -> str:
    """The text of a verdict; escape characters as `cat -v` writes them."""
    return verdict_text(report, Screen(columns, has_colors)).replace("\x1b", "^[")


def section(report: Report, *, has_colors: bool) -> list[str]:
    """A heading and a capture for each width; widths that look alike share one."""
    shown = [(str(columns), capture(report, columns, has_colors=has_colors)) for columns in WIDTHS]
    lines = [f"## {report.verdict.text.capitalize()}, {'with' if has_colors else 'without'} colours"]
    for text, alike in groupby(shown, key=lambda pair: pair[1]):
        widths = ", ".join(columns for columns, _ in alike)
        lines += ["", f"{widths} columns:", "", "```text", text, "```"]
    return lines


def page_with_captures(text: str) -> str:
    """The page with its captures as the code makes them now."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE} has no marks for the captures")
    sections = [section(report, has_colors=has_colors) for report in REPORTS for has_colors in (False, True)]
    captures = "\n\n".join("\n".join(lines) for lines in sections)
    return f"{before}{BEGIN}\n\n{captures}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with_captures(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
