"""A verdict on a screen: short when all is well, folded to any width, and coloured where colours are wanted."""

import io
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from support.built_runs import good_run
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import OwnPromise, Promise
from upheaval.checkers.verdict import Finding, NotApplicable, Report, Verdict
from upheaval.cli import output
from upheaval.cli.main import main
from upheaval.cli.presentation import AS_USUAL
from upheaval.cli.screen import Screen, screen_of
from upheaval.cli.verdict_text import Detail, verdict_text

LONG = (
    "member 0 has " + "0123456789abcdef" * 12 + ", and member 1 has what no other member has in any of its recordings"
)
BROKEN = Finding(Promise.LOGS_EQUAL, Verdict.INVALID, LONG, members=(0, 1), position=4096)
OWN = Finding(OwnPromise.of("no account is overdrawn"), Verdict.UNKNOWN, "the model raised KeyError")
LATE = Finding(Promise.RUN_CONVERGED, Verdict.TIMEOUT, "no end within 30 s")
FINE = Finding(Promise.LINEARIZABLE, Verdict.VALID, "12 results agree with the order of the log")
UNCHECKED = NotApplicable(Promise.STANDBYS_KNOWN, "there was no standby")
REPORT = Report("/runs/1", (FINE, LATE, OWN, BROKEN), (UNCHECKED,))
ESCAPES = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with too little traffic to judge."""
    folder = tmp_path_factory.mktemp("short") / "run"
    good_run(20).write(folder)
    return folder


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("detail", Detail)
def test_every_line_fits_from_60_columns_on(columns: int, detail: Detail) -> None:
    lines = ESCAPES.sub("", verdict_text(REPORT, Screen(columns, has_colors=True), detail)).splitlines()
    assert [line for line in lines if len(line) > columns] == []


@pytest.mark.parametrize("report", [REPORT, Report("/runs/1", (FINE,))], ids=["not valid", "valid"])
def test_a_report_is_neither_true_nor_false(report: Report) -> None:
    with pytest.raises(TypeError, match=r"use \.verdict or assert_valid\(\)"):
        bool(report)


def test_folding_loses_no_word() -> None:
    words = "".join(verdict_text(REPORT, Screen(60), Detail.ALL).split())
    assert words == "".join(verdict_text(REPORT, Screen(), Detail.ALL).split())


def test_the_first_line_is_the_verdict_and_the_worst_comes_first() -> None:
    lines = verdict_text(REPORT, Screen()).splitlines()
    assert lines == [
        "verdict: invalid, 1 broken, 1 unknown, 1 timed out",
        "",
        "invalid  logs are equal up to the commit position [logs-equal]",
        f"         {LONG}",
        "         members 0, 1, position 4096",
        "",
        "unknown  no account is overdrawn",
        "         the model raised KeyError",
        "",
        "timeout  the run converged [run-converged]",
        "         no end within 30 s",
        "",
        "1 kept, 1 not checked (--all shows them)",
        "/runs/1",
    ]


def test_a_valid_run_is_two_lines() -> None:
    report = Report("/runs/1", (FINE,), (UNCHECKED,))
    assert verdict_text(report, Screen(60)).splitlines() == [
        "verdict: valid, 1 kept, 1 not checked (--all shows them)",
        "/runs/1",
    ]


def test_what_could_not_be_judged_is_named_though_nothing_is_broken() -> None:
    gap = NotApplicable(Promise.SNAPSHOT_IS_REPLAY, "states are not replayed: no code", is_gap=True)
    report = Report("/runs/1", (FINE,), (UNCHECKED, gap))
    line = "not checked: a snapshot equals the replay of the log: states are not replayed: no code"
    assert verdict_text(report, Screen()).splitlines() == [
        "verdict: valid, 1 kept, 2 not checked (--all shows them)",
        line,
        "/runs/1",
    ]
    assert str(report).splitlines()[:2] == ["verdict: valid", line]
    assert line not in verdict_text(report, Screen(), Detail.LINE)
    assert verdict_text(report, Screen(), Detail.ALL).count("no code") == 1


def test_all_of_it_has_what_was_kept_and_why_others_were_not_checked() -> None:
    lines = verdict_text(REPORT, Screen(), Detail.ALL).splitlines()
    assert (
        lines[-8:]
        == [
            "1 kept, 1 not checked",
            "",
            "kept:",
            "  linearizable: 12 results agree with the order of the log",
            "",
            "not checked:",
            "  members record the snapshots of standbys correctly: there was no standby",
            "",
            "/runs/1",
        ][1:]
    )


def test_one_line_still_counts_what_was_not_checked() -> None:
    assert verdict_text(REPORT, Screen(), Detail.LINE).splitlines() == [
        "verdict: invalid, 1 broken, 1 unknown, 1 timed out, 1 kept, 1 not checked (--all shows them)",
        "/runs/1",
    ]


def test_a_finding_says_when_its_operation_was_answered(tmp_path: Path) -> None:
    built = good_run()
    for payloads in built.payloads:
        payloads.append(payloads[50])
    built.write(tmp_path)
    report = verify_run(tmp_path)
    repeated = report.finding(Promise.APPLIED_ONCE)
    assert repeated.verdict is Verdict.INVALID
    of_operation = replace(repeated, position=None)
    text = verdict_text(Report(str(tmp_path), (of_operation,)), Screen())
    exact = re.search(rf"operation {repeated.operation}, (\d+\.\d{{3}}) s into the run", text)
    assert exact is not None, text
    at_position = replace(repeated, operation=None, position=1)
    first = verdict_text(Report(str(tmp_path), (at_position,)), Screen())
    assert re.search(r"position 1, about (\d+\.\d{3}) s into the run", first), first


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("choice", "variables", "is_terminal", "has_colors"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_colours_are_where_they_are_wanted(
    monkeypatch: pytest.MonkeyPatch, choice: str, variables: dict[str, str], is_terminal: bool, has_colors: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stream = output.Output(Terminal() if is_terminal else io.StringIO())
    stream.presentation = replace(AS_USUAL, color=choice)
    assert screen_of(stream).has_colors is has_colors  # type: ignore[arg-type]


def test_only_a_terminal_has_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    assert screen_of(Terminal()).columns == 72
    assert screen_of(io.StringIO()).columns is None


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize(
    ("option", "pattern"),
    [
        ("--color=always", "\x1b\\[33munknown"),
        ("--all", "\nnot checked:\n"),
        ("-v", "\nnot checked:\n"),
        ("-q", r"verdict: unknown, \d+ unknown, \d+ kept, \d+ not checked [^\n]+\n[^\n]+\n"),
    ],
)
def test_options_of_all_commands_stand_before_or_after_its_name(
    short: Path, capsys: pytest.CaptureFixture[str], option: str, pattern: str, place: str
) -> None:
    words = (
        [option, "verify", str(short)] if place == "before" and option != "--all" else ["verify", str(short), option]
    )
    assert main(words) == 3
    assert re.search(pattern, capsys.readouterr().out)


def test_quiet_and_verbose_are_not_for_one_command(short: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["verify", str(short), "-q", "-v"])
    assert "not allowed with" in capsys.readouterr().err


def test_the_command_that_judges_again_fits_a_name_with_a_space() -> None:
    *_, last = str(Report("my runs/7", (BROKEN,))).splitlines()
    assert shlex.split(last.removeprefix("all of it: ")) == ["upheaval", "verify", "my runs/7"]
