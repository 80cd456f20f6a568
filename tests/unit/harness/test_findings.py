"""docs/findings.md: its commands run scenarios that are there, and each scenario is one of an issue or of its own."""

import re
from pathlib import Path

from upheaval.execution.known_bugs import KNOWN_BUGS, known_bugs
from upheaval.runtime_names import PROCESS
from upheaval.scenario import load_scenario
from upheaval.scenario.text import OTHERS

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
ROWS = set(re.findall(r"^\| (E\d+) \|", (ROOT / "docs/protocol.md").read_text(encoding="utf-8"), re.MULTILINE))


def test_every_scenario_of_another_system_is_of_an_issue_or_a_finding() -> None:
    ways = "process --system aeron`|simulated --compatibility aeron "
    named = set(re.findall(rf"`upheaval run (\S+) --runtime (?:{ways})", PAGE))
    known = {bug.scenario_name for bug in KNOWN_BUGS}
    assert named | known == {path.stem for path in OTHERS.iterdir()}
    assert not named & known


def test_a_finding_is_tried_on_processes_and_judged_by_every_promise() -> None:
    for name in re.findall(r"`upheaval run (\S+) ", PAGE):
        scenario = load_scenario(name)
        assert PROCESS in scenario.runtimes
        assert not scenario.promises


def test_issues_of_the_page_are_in_the_track_record() -> None:
    issues = re.findall(r"`upheaval track-record (\d+)`", PAGE)
    assert issues
    assert len(known_bugs(issues)) == len(set(issues))


def test_the_page_is_about_rows_of_the_protocol() -> None:
    named = {row for cell in re.findall(r"^\| (E\d[^|]*)\|", PAGE, re.MULTILINE) for row in re.findall(r"E\d+", cell)}
    assert named
    assert named <= ROWS
