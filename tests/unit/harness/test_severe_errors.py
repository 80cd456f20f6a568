"""What the members of a broken promise reported is beside it: time, line and, for maintainers, the stack."""

import json
from html import escape
from pathlib import Path

import pytest

from support.built_runs import lost_operation
from upheaval.checkers.evidence.severe_errors import with_severe_errors
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.cli.main import main
from upheaval.cli.screen import Screen
from upheaval.cli.verdict_text import verdict_text
from upheaval.records import Manifest, RunFolder
from upheaval.report.maintainers import maintainers_page
from upheaval.ui.run_page import page_of_run
from upheaval_node.types import S

TIMEOUT = "service-0: io.aeron.exceptions.DriverTimeoutException: FATAL - no response from MediaDriver within 10s"
STACK = (
    "io.aeron.exceptions.DriverTimeoutException\n\tat ContainerClientSession.connect(ContainerClientSession.java:107)\n"
)
BROKEN = Finding(Promise.SNAPSHOT_IS_REPLAY, Verdict.INVALID, "session 20 is missing", members=(2,), position=35360)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """Members 1 and 2 reported errors; one of member 2 is FATAL."""
    run = RunFolder(tmp_path)
    run.create(Manifest("run-1", "process", 3, "test", 0, system="aeron:1.51.0"))
    warning = {"kind": "WARN ClusterEvent", "text": "module: WARN - leader heartbeat timeout"}
    fatal = {"kind": "FATAL DriverTimeoutException", "text": TIMEOUT, "traceback": STACK}
    other = {"kind": "ERROR ClusterException", "text": "module: ERROR - unknown member", "traceback": None}
    for member_id, errors in enumerate(([], [other], [warning, fatal])):
        lines = [{"ts": S, "event": "process-start", "component": "all"}]
        lines += [{"ts": (3 + n) * S, "event": "error", "component": "all", **e} for n, e in enumerate(errors)]
        run.member(member_id).path.mkdir()
        run.member(member_id).trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def test_severe_errors_of_the_members_of_a_broken_promise_are_beside_it(run: RunFolder) -> None:
    lines = verdict_text(Report(str(run.path), with_severe_errors(run, [BROKEN])), Screen()).splitlines()
    assert lines[2:6] == [
        "invalid  a snapshot equals the replay of the log [snapshot-is-replay]",
        "         session 20 is missing",
        f"         member 2 reported at 3.000 s: {TIMEOUT} (member-2/trace.jsonl:3)",
        "         member 2, position 35360",
    ]


@pytest.mark.parametrize(
    ("members", "verdict", "places"),
    [
        ((1, 2), Verdict.INVALID, ["member-1/trace.jsonl:2", "member-2/trace.jsonl:3"]),
        ((2,), Verdict.UNKNOWN, []),
        ((0,), Verdict.INVALID, []),
        ((), Verdict.INVALID, []),
    ],
)
def test_only_a_broken_promise_has_errors_those_of_its_members(
    members: tuple[int, ...], verdict: Verdict, places: list[str], run: RunFolder
) -> None:
    (finding,) = with_severe_errors(run, [Finding(Promise.STATES_AGREE, verdict, "", members=members)])
    assert [error.place for error in finding.errors] == places


def test_maintainers_get_the_stack_of_a_fatal_error_and_the_start_of_a_member(run: RunFolder) -> None:
    run.scenario_file.write_text("title A slow name\n")
    launcher = "java -cp {aeron} Slow.java"
    report = Report(str(run.path), with_severe_errors(run, [BROKEN]))
    page = maintainers_page(run, report, "unused", launcher, "-Xmx128m")
    assert f"{TIMEOUT} (member-2/trace.jsonl:3)\n\n```text\n{STACK}```\n" in page
    assert "| 3.000 | 2 | error | 1 | kind=FATAL DriverTimeoutException, text=service-0:" in page
    assert f"| launcher | {launcher} |\n| jvm | -Xmx128m |\n" in page
    assert f"--system aeron:1.51.0 '--launcher={launcher}' --jvm=-Xmx128m\n" in page


def test_the_page_and_the_json_of_a_run_have_what_its_verdict_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost_operation(tmp_path)
    run = RunFolder(tmp_path)
    for member_id in range(3):
        with run.member(member_id).trace.open("a") as stream:
            fields = {"kind": "FATAL Error", "text": f"<b>module {member_id}</b>", "traceback": "at Main.java:7"}
            stream.write(json.dumps({"ts": 300_000, "event": "error", "component": "all", **fields}) + "\n")
    main(["verify", str(tmp_path), "--json"])
    promises = json.loads(capsys.readouterr().out)["promises"]
    broken = next(promise for promise in promises if promise["verdict"] == "invalid" and promise["members"])
    errors = broken["errors"]
    assert [error["member_id"] for error in errors] == broken["members"]
    assert {error["ns"] for error in errors} == {300_000}
    assert {error["traceback"] for error in errors} == {"at Main.java:7"}
    assert all("errors" not in promise for promise in promises if promise["verdict"] != "invalid")
    page = page_of_run(tmp_path)
    for error in errors:
        text = escape(error["text"])
        assert f"reported at 0.000 s: {text} ({error['place']})</summary><pre>at Main.java:7</pre>" in page
