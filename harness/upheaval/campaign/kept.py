"""What a campaign leaves in its `--out`: one campaign at a time writes there, and the next one replaces it.

A run folder that a campaign keeps names it in `kept.json`, so that nothing else is removed.
"""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import uuid4

from upheaval.campaign.seed_lines import SEEDS_FILE
from upheaval.errors import UsageError
from upheaval.records import jsonfields, write_atomically
from upheaval.records.folder_lock import held

SEED_RUNS: Final = "seed-*"
"""The run folders of a campaign, and those of searches for simpler ones."""
SUMMARY_FILE: Final = "summary.json"
KEPT_FILE: Final = "kept.json"
KEPT_MAX: Final = 5
"""How many run folders of failed seeds a campaign keeps."""
_LOCK_FILE: Final = ".campaign.lock"
_UNFINISHED: Final = ".seed-*.coming"
"""Run folders that were being moved when their campaign was killed."""


@contextlib.contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Keep other campaigns out of the folder for the block. Raises `UsageError` if one is there."""
    out.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(held(out / _LOCK_FILE))
        except BlockingIOError:
            raise UsageError(f"another campaign writes to {out}: give another --out") from None
        yield


def require_new(out: Path) -> None:
    """Raises `UsageError` if a campaign has written there."""
    if any(out.glob(SEED_RUNS)) or (out / SEEDS_FILE).exists():
        raise UsageError(f"{out} already holds runs of a campaign: give another --out")


def remove_earlier(out: Path) -> None:
    """Remove the lines, the summary and the kept runs of an earlier campaign. Raises `UsageError`, and removes nothing,
    if there are runs that no campaign kept there.
    """
    runs = sorted(out.glob(SEED_RUNS))
    for run in runs:
        if not is_kept_in(out, run):
            raise UsageError(f"no campaign in {out} kept {run}: move it, or give another --out")
    for name in (SEEDS_FILE, SUMMARY_FILE):
        (out / name).unlink(missing_ok=True)
    for run in (*runs, *out.glob(_UNFINISHED)):
        shutil.rmtree(run)


def move_to_scratch(run: Path, folder: Path, out: Path) -> Path | None:
    """Move a run folder to `folder`, for `keep_run` once its turn comes; not if `out` has enough already."""
    if _has_enough(out):
        return None
    folder.mkdir(exist_ok=True)
    return run.rename(folder / run.name)


def keep_run(run: Path, out: Path) -> Path | None:
    """Move a run folder there, unless there are enough. It is there as a whole or not at all."""
    place = out / run.name
    if not place.exists() and _has_enough(out):
        return None
    mark_kept(run, out)
    coming = out / f".{run.name}.{uuid4().hex}.coming"
    out.mkdir(parents=True, exist_ok=True)
    shutil.move(run, coming)
    if is_kept_in(out, place):
        # The same execution, by a task of Spark whose executor was lost afterwards.
        shutil.rmtree(place)
    coming.rename(place)
    return place


def _has_enough(out: Path) -> bool:
    return len(list(out.glob(SEED_RUNS))) >= KEPT_MAX


def mark_kept(run: Path, out: Path) -> None:
    """Note that the campaign in `out` made this run folder."""
    write_atomically(run / KEPT_FILE, jsonfields.to_json({"campaign": str(out.resolve())}) + "\n")


def is_kept_in(out: Path, run: Path) -> bool:
    """Whether a campaign in `out` kept that run there. A copy of one is not."""
    file = run / KEPT_FILE
    if run.is_symlink() or not file.is_file():
        return False
    campaign = jsonfields.read_object(file).get("campaign")
    # An older version wrote the path as it was given.
    return isinstance(campaign, str) and Path(campaign).resolve() == out.resolve()
