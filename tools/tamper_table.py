"""Make the runs that `upheaval tamper` is shown on, try all edits on them, and write the table into docs/tamper.md.

python tools/tamper_table.py writes the part between the two marks; tests tell whether it is current.
"""

import contextlib
import io
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from upheaval.cli.main import main
from upheaval.cli.progress import ProgressLine
from upheaval.tamper.table import EDITS
from upheaval.tamper.trial import Outcome, Score, Trial, refuse_unfit, try_edits

PAGE = Path(__file__).resolve().parents[1] / "docs" / "tamper.md"
BEGIN = "<!-- written by tools/tamper_table.py -->"
END = "<!-- end of the table -->"

RUNS: Final = {
    "leader-killed": "run leader-killed --runtime simulated --seed 1",
    "snapshot-and-restart": "run snapshot-and-restart --runtime simulated --seed 1",
    "timers-over-restarts": "run timers-over-restarts --runtime simulated --seed 1",
    "money-is-conserved": "run money-is-conserved --runtime simulated --seed 1",
    "backup-loses-its-source": "run backup-loses-its-source --runtime simulated --seed 1",
    "leader-isolated-blackhole": "run leader-isolated-blackhole --runtime simulated --seed 1",
    "leader-killed-on-processes": "run leader-killed --runtime process --seed 1",
    "standby-and-credentials": "campaign --seeds 142..142",
    "follower-offline": "run follower-offline --runtime simulated",
}
"""The commands that make them, without `upheaval` and `--dir`. An edit is tried on the first one that has what it
changes.
"""


def make_runs(folder: Path, say: Callable[[str], None]) -> list[Path]:
    """Below a folder, in the order in which edits are tried on them."""
    paths = []
    for name, command in RUNS.items():
        say(f"making {name}")
        paths.append(folder / name)
        with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(output):
            status = main([*command.split(), "--dir", str(paths[-1])])
        if status:
            raise SystemExit(f"upheaval {command} ended with {status}: {output.getvalue()}")
    return paths


def table(trials: Iterable[Trial]) -> str:
    """The score, and the edits by what became of them: the worst outcome first, then by promise."""
    everything = list(trials)
    return f"{Score.of(everything).text}.\n\n{rows([(trial.edit.name, _outcome(trial)) for trial in everything])}"


def rows(outcomes: Sequence[tuple[str, str]]) -> str:
    """A table of names of edits with their outcomes, one row for each outcome."""
    by_outcome: dict[str, list[str]] = {}
    for name, outcome in outcomes:
        by_outcome.setdefault(outcome, []).append(f"`{name}`")
    order = sorted(by_outcome, key=lambda outcome: (not outcome.startswith("**"), outcome))
    return "\n".join(
        [
            "| outcome | edits |",
            "|---|---|",
            *(f"| {outcome} | {', '.join(by_outcome[outcome])} |" for outcome in order),
        ]
    )


def names_on(text: str) -> list[str]:
    """The edits in the table of a page."""
    written = text.partition(BEGIN)[2].partition(END)[0]
    cells = [line.rpartition(" | ")[2] for line in written.splitlines() if line.startswith("| ")]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def _outcome(trial: Trial) -> str:
    if trial.outcome is Outcome.NOTICED:
        finding = trial.finding
        return "a file is refused" if finding is None else f"`{finding.promise}` {finding.verdict.text}"
    return f"**{trial.outcome}**"


def page_with_table(text: str, trials: Sequence[Trial]) -> str:
    """The page with the outcome of each edit."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE} has no marks for the table")
    return f"{before}{BEGIN}\n\n{table(trials)}\n\n{END}{after}"


def try_all(runs: Sequence[Path], say: Callable[[str], None]) -> list[Trial]:
    """Raises `UsageError` for a run that is not valid."""
    refuse_unfit(runs)
    return list(try_edits(runs, EDITS, say))


if __name__ == "__main__":
    progress = ProgressLine(30.0)
    with TemporaryDirectory(prefix="tamper-runs-") as name:
        tried = try_all(make_runs(Path(name), progress.show), progress.show)
    progress.end()
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8"), tried), encoding="utf-8")
    print(Score.of(tried).text, file=sys.stderr)
