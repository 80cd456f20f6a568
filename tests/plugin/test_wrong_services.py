"""Services with a mistake that users make: each one is named, with what leads to its line."""

import re
from pathlib import Path

import pytest

from support.own_services import SERVICES, WRONG, Wrong, judged_wrong
from upheaval import Verdict
from upheaval.checkers.verdict import Report

PAGE = Path(__file__).parents[2] / "docs" / "wrong-services.md"
OFTEN_ON_PROCESSES = ("sessions_missing", "lost_update")


def require_named(wrong: Wrong, report: Report, runtime: str) -> None:
    assert report.verdict is Verdict.INVALID, report
    finding = next(each for each in report.findings if each.promise == wrong.promise_on(runtime))
    assert finding.verdict is Verdict.INVALID, report
    for word in (*wrong.says_on(runtime), wrong.where()):
        assert word in finding.evidence


@pytest.mark.parametrize("wrong", [pytest.param(wrong, id=wrong.name) for wrong in WRONG])
def test_a_wrong_service_is_named_on_the_simulated_runtime(
    wrong: Wrong, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in wrong.variables.items():
        monkeypatch.setenv(name, value)
    require_named(wrong, judged_wrong(wrong, tmp_path, runtime="simulated"), "simulated")


@pytest.mark.heavy
@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(wrong, id=wrong.name, marks=() if wrong.name in OFTEN_ON_PROCESSES else pytest.mark.nightly)
        for wrong in WRONG
    ],
)
def test_a_wrong_service_is_named_on_processes(wrong: Wrong, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in wrong.variables.items():
        monkeypatch.setenv(name, value)
    require_named(wrong, judged_wrong(wrong, tmp_path, runtime="process"), "process")


def test_the_page_has_a_row_for_each_wrong_service_with_what_is_said_of_it() -> None:
    """A line that is named by its number is there without it."""
    assert {wrong.name for wrong in WRONG} == {
        path.stem for path in (SERVICES / "wrong").glob("*.py") if "ClusteredService" in path.read_text()
    }
    rows = [
        [cell.strip() for cell in line.split("|")] for line in PAGE.read_text().splitlines() if line.startswith("|")
    ]
    by_name = {row[1].strip("`"): " ".join(row[2:]) for row in rows}
    for wrong in WRONG:
        promises = {str(wrong.promise_on(runtime)) for runtime in ("simulated", "process")}
        for word in (*promises, *wrong.says):
            assert word in by_name[wrong.name]


def test_the_page_names_services_that_are_there() -> None:
    """At least thirty need no model."""
    listed = re.findall(r"^\| `(\w+):(\w+)` ", PAGE.read_text(), re.MULTILINE)
    without = [(module, name) for module, name in listed if f"class {name}(" not in module_text(module)]
    assert without == []
    assert len(listed) >= 30


def module_text(module: str) -> str:
    return (SERVICES / f"{module}.py").read_text()
