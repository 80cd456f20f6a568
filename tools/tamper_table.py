"""Make the runs that `upheaval tamper` is shown on, try all edits on them, and write the table into docs/tamper.md.

python tools/tamper_table.py writes the part between the two marks; tests tell whether it is current.
"""

import contextlib
import io
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from upheaval.cli.main import main
from upheaval.cli.progress import ProgressLine
from upheaval.tamper.edit import Edit
from upheaval.tamper.table import EDITS, KINDS
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
    """The edits by kind, and the score."""
    by_edit = {trial.edit.name: trial for trial in trials}
    lines = [Score.of(list(by_edit.values())).text + "."]
    for kind, edits in KINDS.items():
        lines += ["", f"**{kind[0].upper()}{kind[1:]}**", ""]
        lines += ["| edit | what it forges | must be noticed by | outcome |", "|---|---|---|---|"]
        lines += [f"{row_without_outcome(edit)} {_outcome(by_edit[edit.name])} |" for edit in edits]
    return "\n".join(lines)


def row_without_outcome(edit: Edit) -> str:
    """What the table has of an edit wherever it is tried."""
    return f"| `{edit.name}` | {edit.forges} | {', '.join(f'`{promise}`' for promise in edit.promises)} |"


def _outcome(trial: Trial) -> str:
    if trial.outcome is Outcome.WRONG:
        return f"**{trial.outcome}**"
    if trial.finding is None:
        return f"{trial.outcome}: {'a file is refused' if trial.outcome is Outcome.NOTICED else trial.why}"
    return f"{trial.outcome}: `{trial.finding.promise}` {trial.finding.verdict.text}"


def page_with_table(text: str, trials: Sequence[Trial]) -> str:
    """The page with what came of all edits."""
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
