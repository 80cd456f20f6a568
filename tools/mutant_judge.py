"""`python tools/mutant_judge.py [PART...]`: what a mutant of the node is judged by, in virtual time.

The same few clusters every time: short seeds of a campaign, scenarios, a backup and a standby that become clusters. One
line of JSON for each part says by what it is broken, if it is; nothing is run after the first that is. With `--trace`
the line has what was executed of the node. Run by `mutants.py`, which says by PYTHONPATH which node it is.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import upheaval_node
from support.flows_backup import backup_under_load_and_restore
from support.flows_standby import standby_snapshot_and_promotion
from upheaval.campaign.seed import SeedRun
from upheaval.campaign.swarm import draw_swarm
from upheaval.checkers.verdict import Verdict
from upheaval.execution.run import run_scenario
from upheaval.execution.simulated import SimulatedStage
from upheaval.scenario import load_scenario
from upheaval.testing.cluster import Cluster

NODE: Final = str(Path(upheaval_node.__file__).parents[1])
SECONDS: Final = 30
"""Of load on the cluster of a seed."""


class Broken(Exception):
    """What a part found."""


def seed(number: int, folder: Path) -> None:
    outcome = SeedRun(draw_swarm(number, SECONDS), folder).run()
    if not outcome.is_valid:
        raise Broken(f"{outcome.verdict}: {outcome.promise}: {outcome.detail}")


def scenario(name: str, folder: Path) -> None:
    text = load_scenario(name)
    stage = SimulatedStage(text, 1, folder)
    result = run_scenario(text, stage, runtime="simulated", seed=1, say=lambda _: None)
    for finding in result.report.findings:
        if finding.verdict is not Verdict.VALID:
            raise Broken(f"{finding.verdict.text}: {finding.promise}: {finding.detail}")


def flow(body: Callable[..., None], folder: Path) -> None:
    body(partial(Cluster, runtime="simulated", seed=1), folder)


PARTS: Final[Mapping[str, Callable[[Path], None]]] = {
    "seed 6": partial(seed, 6),
    "snapshot-and-restart": partial(scenario, "snapshot-and-restart"),
    "seed 1": partial(seed, 1),
    "standby": partial(flow, standby_snapshot_and_promotion),
    "backup": partial(flow, backup_under_load_and_restore),
    "seed 2": partial(seed, 2),
    "seed 8": partial(seed, 8),
    "money-is-conserved": partial(scenario, "money-is-conserved"),
    "leader-left-alone": partial(scenario, "leader-left-alone"),
    "timers-over-restarts": partial(scenario, "timers-over-restarts"),
}
"""Quick ones that find much come first."""


def try_part(part: Callable[[Path], None]) -> str:
    """What it is broken by, in one line; empty when it is not."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        try:
            part(Path(folder) / "run")
        except Broken as broken:
            return str(broken)
        except Exception as error:  # noqa: BLE001 - whatever a mutant does
            return " ".join(f"{type(error).__name__}: {error}".split())
    return ""


class Executed:
    """The lines of the node that were executed, by file."""

    def __init__(self) -> None:
        self._lines: dict[CodeType, set[int]] = {}
        self._missing: dict[CodeType, set[int]] = {}

    def __enter__(self) -> "Executed":
        sys.settrace(self._on_call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _on_call(self, frame: FrameType, _event: str, _argument: object) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(NODE):
            return None
        lines = self._lines.setdefault(code, {code.co_firstlineno})
        if code not in self._missing:
            self._missing[code] = {line for *_, line in code.co_lines() if line is not None} - lines
        if not self._missing[code]:
            return None

        def on_line(frame: FrameType, _event: str, _argument: object) -> Any:
            lines.add(frame.f_lineno)
            self._missing[code].discard(frame.f_lineno)
            return on_line

        return on_line

    def by_file(self) -> dict[str, list[int]]:
        found: dict[str, set[int]] = {}
        for code, lines in self._lines.items():
            found.setdefault(str(Path(code.co_filename).relative_to(NODE)), set()).update(lines)
        return {file: sorted(lines) for file, lines in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="some of them (default: all)")
    parser.add_argument("--trace", action="store_true", help="say what was executed")
    options = parser.parse_args()
    for name in options.parts or PARTS:
        begin = time.process_time()
        executed = Executed()
        if options.trace:
            with executed:
                by = try_part(PARTS[name])
        else:
            by = try_part(PARTS[name])
        result = {"part": name, "by": by, "seconds": time.process_time() - begin, "lines": executed.by_file()}
        print(json.dumps(result), flush=True)
        if by:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
