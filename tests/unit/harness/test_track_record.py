"""The table of known bugs, what counts as caught, and the page."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from upheaval.aeron_jars import SHA256, order_of
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.cli.main import main
from upheaval.cli.track_record import page
from upheaval.execution.known_bugs import KNOWN_BUGS, KnownBug, tries_of
from upheaval.scenario import scenario_names

ROOT = Path(__file__).resolve().parents[3]
BUG = KNOWN_BUGS[0]
UNLISTED = next(version for version in SHA256 if version not in BUG.versions)
"""A version of which the table does not say whether it has the bug."""
FINE = Report("run", (Finding(Promise.RUN_CONVERGED, Verdict.VALID, "at 5"),))


def report(promise: Promise, verdict: Verdict, issue: int | None = None) -> Report:
    return Report("run", (*FINE.findings, Finding(promise, verdict, "why", known_issue=issue)))


CAUGHT = report(BUG.promise, Verdict.INVALID, int(BUG.issue))
BROKEN = report(BUG.promise, Verdict.INVALID)
KNOWN = report(BUG.promise, Verdict.INVALID, 1601)
OTHER = report(Promise.APPLIED_ONCE, Verdict.INVALID)
UNCLEAR = report(Promise.ENOUGH_TRAFFIC, Verdict.UNKNOWN)


@pytest.mark.parametrize("bug", KNOWN_BUGS, ids=lambda bug: str(bug.issue))
def test_a_known_bug_has_steps_and_versions_that_can_be_had(bug: KnownBug) -> None:
    assert set(bug.versions) <= set(SHA256)
    assert bug.bad not in bug.good
    for version in bug.versions:
        scenario = bug.scenario(version)
        assert scenario.cluster.system == f"aeron:{version}"
        assert "process" in scenario.runtimes
        assert not scenario.promises, "a version that has not the bug keeps every promise"


def test_scenarios_of_known_bugs_are_not_listed_with_those_of_our_node() -> None:
    assert not {bug.scenario_name for bug in KNOWN_BUGS} & set(scenario_names())


@pytest.mark.parametrize(
    ("version", "reports", "verdict"),
    [
        (BUG.bad, [CAUGHT, FINE, UNCLEAR], Verdict.VALID),
        (BUG.bad, [FINE, FINE, FINE], Verdict.UNKNOWN),
        (BUG.bad, [OTHER], Verdict.UNKNOWN),
        (BUG.bad, [BROKEN, BROKEN, BROKEN], Verdict.UNKNOWN),
        (BUG.bad, [CAUGHT, BROKEN], Verdict.UNKNOWN),
        (BUG.bad, [CAUGHT, OTHER], Verdict.UNKNOWN),
        (BUG.bad, [KNOWN], Verdict.UNKNOWN),
        (BUG.bad, [CAUGHT, KNOWN], Verdict.VALID),
        (BUG.good[0], [FINE, FINE], Verdict.VALID),
        (BUG.good[0], [FINE, UNCLEAR], Verdict.UNKNOWN),
        (BUG.good[0], [FINE, CAUGHT], Verdict.INVALID),
        (BUG.good[0], [FINE, BROKEN], Verdict.INVALID),
        (BUG.good[0], [UNCLEAR, OTHER], Verdict.INVALID),
        (UNLISTED, [CAUGHT, FINE], Verdict.VALID),
        (UNLISTED, [FINE, FINE], Verdict.VALID),
        (UNLISTED, [CAUGHT, OTHER], Verdict.UNKNOWN),
        (UNLISTED, [FINE, OTHER], Verdict.INVALID),
        (UNLISTED, [FINE, UNCLEAR], Verdict.UNKNOWN),
    ],
)
def test_what_tries_say_of_a_version(version: str, reports: list[Report], verdict: Verdict) -> None:
    assert tries_of(BUG, version, reports).verdict is verdict


@pytest.mark.parametrize(
    ("found", "tries", "expected"), [(3, 3, (0.438, 1.0)), (0, 3, (0.0, 0.562)), (8, 9, (0.565, 0.980))]
)
def test_the_rate_of_a_bug_has_an_interval(found: int, tries: int, expected: tuple[float, float]) -> None:
    done = tries_of(BUG, BUG.bad, [CAUGHT] * found + [FINE] * (tries - found))
    assert done.interval == pytest.approx(expected, abs=0.001)


def test_tries_are_counted_by_what_they_showed() -> None:
    done = tries_of(BUG, BUG.bad, [CAUGHT, OTHER, FINE, UNCLEAR, UNCLEAR])
    assert (done.tries, done.caught, done.valid) == (5, 1, 1)
    assert done.others == done.strange == (Promise.APPLIED_ONCE,)
    assert done.unclear == (f"{Promise.ENOUGH_TRAFFIC.sentence}: why",)


def test_a_promise_that_another_cause_broke_is_not_the_bug() -> None:
    done = tries_of(BUG, BUG.bad, [CAUGHT, BROKEN, KNOWN])
    assert (done.caught, done.others, done.strange) == (1, (BUG.promise,), (BUG.promise,))
    by_commit = next(bug for bug in KNOWN_BUGS if bug.issue == "a5d5072d5f")
    named = replace(BROKEN.findings[-1], promise=by_commit.promise, known_cause="Aeron before commit a5d5072d5f")
    done = tries_of(by_commit, by_commit.bad, [Report("run", (named,))])
    assert (done.caught, done.others, done.verdict) == (1, (), Verdict.VALID)


def test_what_is_unknown_beside_a_broken_promise_is_reported() -> None:
    unknown = Finding(Promise.FAULTS_PROVED, Verdict.UNKNOWN, "not healed")
    done = tries_of(BUG, BUG.bad, [Report("run", (*CAUGHT.findings, unknown)), FINE])
    assert (done.caught, done.unclear) == (1, (f"{Promise.FAULTS_PROVED.sentence}: not healed",))


def test_a_run_that_left_no_report_is_a_try_and_says_why() -> None:
    done = tries_of(BUG, BUG.good[0], [FINE, UNCLEAR], ["no port", "member 1 does not start"])
    assert (done.tries, done.caught, done.valid) == (4, 0, 1)
    assert done.unclear == ("no port", "member 1 does not start", f"{Promise.ENOUGH_TRAFFIC.sentence}: why")
    assert done.verdict is Verdict.UNKNOWN


def test_what_cannot_be_run_does_not_lose_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    status = main(["track-record", str(BUG.issue), "--tries", "1", "--dir", str(tmp_path / "file")])
    assert status == Verdict.UNKNOWN.exit_status
    assert capsys.readouterr().out.count(str(tmp_path / "file")) == len(BUG.versions)


def test_the_page_has_a_row_for_each_version() -> None:
    done = [tries_of(bug, version, [CAUGHT, FINE]) for bug in KNOWN_BUGS for version in bug.versions]
    shown_rows = rows(page(done, {}))
    assert [(row[0], row[1].split()[0]) for row in shown_rows] == versions()
    assert [row[2:5] for row in shown_rows[:2]] == [["2", "1", "1"], ["2", "1", "1"]]


def test_the_matrix_counts_what_was_found_of_what_was_tried() -> None:
    done = [
        tries_of(BUG, UNLISTED, [CAUGHT, UNCLEAR]),
        tries_of(BUG, BUG.bad, [CAUGHT, CAUGHT]),
        tries_of(KNOWN_BUGS[1], BUG.bad, [FINE]),
    ]
    text = page(done, {})
    columns = sorted({UNLISTED, BUG.bad}, key=order_of)
    cells = {UNLISTED: "1 of 2 ?", BUG.bad: "2 of 2"}
    others = {UNLISTED: "", BUG.bad: "0 of 1"}
    lines = [
        ["issue", *columns],
        ["---", "---", "---"],
        [BUG.label, *map(cells.get, columns)],
        [KNOWN_BUGS[1].label, *map(others.get, columns)],
    ]
    assert "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) in text
    of_unlisted = next(row for row in rows(text) if row[1] == UNLISTED)
    assert of_unlisted[-1] == f"`upheaval track-record {BUG.issue} --tries 2 --versions {UNLISTED}`"


def test_other_versions_are_tried_where_they_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be run has rows, too, so that no member is needed."""
    (tmp_path / "file").touch()
    written = tmp_path / "page.md"
    options = ["--tries", "1", "--dir", str(tmp_path / "file"), "--out", str(written), "--json"]
    for asked, tried in (
        (f"{UNLISTED},{UNLISTED}", {UNLISTED}),
        (BUG.bad, {UNLISTED, BUG.bad}),
        ("all", set(SHA256)),
    ):
        assert main(["track-record", str(BUG.issue), "--versions", asked, *options]) == Verdict.UNKNOWN.exit_status
        assert {row[1].split()[0] for row in rows(written.read_text())} == tried
    capsys.readouterr()
    assert main(["track-record", str(BUG.issue), "--versions", "mine"]) == 2
    assert "unknown version 'mine' of aeron" in capsys.readouterr().err


def test_the_page_says_where_the_members_were() -> None:
    done = [tries_of(BUG, BUG.bad, [CAUGHT])]
    command = f"`upheaval track-record --runtime docker {BUG.issue} --tries 1`"
    assert rows(page(done, {}, "docker"))[0][-1] == command
    assert rows(page(done, {}))[0][-1] == command.replace(" --runtime docker", "")


def test_the_page_of_the_repository_is_of_this_table() -> None:
    text = (ROOT / "docs/track-record.md").read_text()
    shown_rows = rows(text)
    bugs = {str(bug.issue): bug for bug in KNOWN_BUGS}
    assert {(row[0], row[1].split()[0]) for row in shown_rows} >= set(versions())
    for row in shown_rows:
        known = bugs[row[0]]
        assert f"| {known.label} | {known.what} | {known.fault} |\n" in text
        tries, found, valid = map(int, row[2:5])
        has_it = known.has_it(row[1].split()[0])
        assert has_it is None or (found > 0) == has_it, row
        assert found + valid <= tries


def test_an_unknown_issue_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["track-record", "4"]) == 2
    assert "unknown issue 4: use one of 1397" in capsys.readouterr().err


def test_a_page_of_some_issues_keeps_the_rows_of_others(tmp_path: Path) -> None:
    """What cannot be run has rows, too, so that no member is needed."""
    (tmp_path / "file").touch()
    written = tmp_path / "page.md"
    old = [tries_of(bug, version, [CAUGHT]) for bug in KNOWN_BUGS for version in bug.versions]
    by_hand = "\n| not shown | why |\n|---|---|\n| #1 | no jar |\n"
    written.write_text(page(old, {}) + by_hand)
    before = rows(written.read_text())
    options = ["--tries", "2", "--dir", str(tmp_path / "file"), "--out", str(written)]
    assert main(["track-record", str(BUG.issue), *options]) == Verdict.UNKNOWN.exit_status
    after = rows(written.read_text())
    count = len(BUG.versions)
    assert [row[2:5] for row in after[:count]] == [["2", "0", "0"]] * count
    assert after[count:] == before[count:]
    assert written.read_text().endswith(by_hand)
    assert written.read_text().count(by_hand) == 1


def test_a_page_with_another_table_is_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "page.md"
    written.write_text(
        f"| {BUG.issue} | what is wrong | 1.44.1 (has it) | 3 | 3 | 0 | `progress` | none | a command |\n"
    )
    before = written.read_text()
    assert main(["track-record", str(BUG.issue), "--out", str(written)]) == 2
    assert f"{written} has a table of another version of upheaval" in capsys.readouterr().err
    assert written.read_text() == before


def test_what_would_be_lost_is_refused_before_the_first_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "page.md"
    text = page([tries_of(BUG, version, [CAUGHT]) for version in BUG.versions], {})
    written.write_text(text)
    options = ["--dir", str(tmp_path / "runs"), "--write", str(written)]
    assert main(["track-record", "--runtime", "docker", *options]) == 2
    assert f"{written} has rows of another runtime than docker: write into another file" in capsys.readouterr().err
    last = KNOWN_BUGS[-1]
    folder = tmp_path / "runs" / f"{last.issue}-{last.versions[-1]}-3"
    folder.mkdir(parents=True)
    (folder / "history.jsonl").touch()
    assert main(["track-record", *options]) == 2
    assert f"{folder} is not empty: name another --dir" in capsys.readouterr().err
    assert list((tmp_path / "runs").iterdir()) == [folder]
    assert written.read_text() == text


def versions() -> list[tuple[str, str]]:
    return [(str(bug.issue), version) for bug in KNOWN_BUGS for version in sorted(bug.versions, key=order_of)]


def rows(text: str) -> list[list[str]]:
    """The cells of the table's rows."""
    return [re.split(r" \| ", line.strip("| ")) for line in text.splitlines() if re.match(r"\| [\da-f]{4,10} ", line)]
