"""What processes printed: the usual lines of logback, log4j and Python's logging have their level and time."""

from datetime import UTC, date
from pathlib import Path

import pytest

from upheaval.records import Manifest, RunFolder
from upheaval.report.logs import read_logs
from upheaval.report.printed_lines import PrintedLine, printed_lines

DAY = date(2023, 11, 14)
AT_MS = 1_700_000_000_123


def parsed(*lines: str) -> list[PrintedLine]:
    return list(printed_lines(lines, DAY, UTC))


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("22:13:20.123 [main] ERROR bank.Bank - no such account", id="logback, default"),
        pytest.param("2023-11-14 22:13:20.123 [main] ERROR bank.Bank - no such account", id="logback with a date"),
        pytest.param("2023-11-14T22:13:20.123Z ERROR 1 --- [main] bank.Bank : no such account", id="Spring Boot"),
        pytest.param("2023-11-14T23:13:20,123+01:00 [main] ERROR bank.Bank - no such account", id="with a zone"),
        pytest.param("2023-11-14 22:13:20,123 ERROR [main] bank.Bank (Bank.java:7) no such account", id="log4j"),
        pytest.param("2023-11-14 22:13:20,123 - bank - ERROR - no such account", id="logging, the usual format"),
        pytest.param("2023-11-14 22:13:20,123 bank - CRITICAL - no such account", id="logging, a logger first"),
        pytest.param("[2023-11-14 22:13:20,123] [main] FATAL no such account", id="in brackets"),
    ],
)
def test_a_line_has_its_level_and_its_own_time(line: str) -> None:
    assert parsed(line) == [PrintedLine(AT_MS, "error", line)]


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("ERROR:bank:no such account", "error"),
        ("WARNING:root:low", "warning"),
        ("[WARN] low", "warning"),
        ("INFO: begun", "info"),
        ("ERROR bank.Bank - no such account", "error"),
        ("ERROR [main] - no such account", "error"),
    ],
)
def test_a_line_without_a_time_has_its_level(line: str, level: str) -> None:
    assert parsed(line) == [PrintedLine(None, level, line)]


@pytest.mark.parametrize(
    "line", ["ERROR is a word", "no ERROR here", "22:13:20 somebody came", "99:99:99 [main] nothing", "", "ERRORS: 5"]
)
def test_other_lines_have_neither(line: str) -> None:
    assert parsed(line) == [PrintedLine(None, "info", line)]


def test_a_time_that_no_clock_has_leaves_the_level() -> None:
    assert parsed("99:13:20.123 [main] WARN bank - low") == [
        PrintedLine(None, "warning", "99:13:20.123 [main] WARN bank - low")
    ]


def test_a_stack_trace_belongs_to_the_line_before_it() -> None:
    first, trace = "22:13:20.123 [main] ERROR bank - failed", ["java.lang.Error: no", "\tat bank.Bank.on(Bank.java:7)"]
    last = "22:13:20.123 [main] INFO  bank - goes on"
    assert parsed("begins", first, *trace, last) == [
        PrintedLine(None, "info", "begins"),
        PrintedLine(AT_MS, "error", "\n".join([first, *trace])),
        PrintedLine(AT_MS, "info", last),
    ]


def test_logs_have_them_by_level_and_in_the_order_of_time(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.create(Manifest("run-1", "docker", 2, "test", 0, created="2023-11-14T22:00:00+00:00"))
    for member_id, line in enumerate(["22:13:21.000 [main] WARN bank - low", "22:13:20.123 [main] ERROR bank - no"]):
        run.member(member_id).path.mkdir()
        (run.member(member_id).path / "all.log").write_text(f"begins\n{line}\n")
    found = read_logs(run, level="warning")
    assert [(line.owner, line.level, line.epoch_ms) for line in found] == [
        ("member-1", "error", AT_MS),
        ("member-0", "warning", AT_MS + 877),
    ]


def test_a_day_ends_where_times_of_the_day_alone_begin_anew() -> None:
    lines = ["23:59:58.000 [main] INFO before", "00:00:02.000 [main] ERROR after", "23:00:00.000 [main] INFO late"]
    more = [
        "23:00:00.000 [main] INFO once",
        "22:59:00.000 [main] INFO a clock that was set",
        "01:00:00 [main] INFO third",
    ]
    first, *others = [line.epoch_ms for line in parsed(*lines, *more)]
    assert first is not None
    seconds = [(ms - first) / 1000 for ms in others if ms is not None]
    assert seconds == [4, 23 * 3600 + 2, 23 * 3600 + 2, 23 * 3600 - 58, 25 * 3600 + 2]


def test_a_line_with_a_date_ends_no_day() -> None:
    lines = parsed("22:13:20.123 [main] INFO a", "2023-11-14 01:00:00.000 [main] INFO b", "22:13:20.123 [main] INFO c")
    assert [line.epoch_ms for line in (lines[0], lines[2])] == [AT_MS, AT_MS]


def test_lines_that_changed_places_at_midnight_keep_their_days() -> None:
    times = ["23:59:59.990", "00:00:00.001", "23:59:59.999", "23:59:59.999", "00:00:00.002", "00:00:00.003"]
    first, *others = [line.epoch_ms for line in parsed(*(f"{time} [main] INFO a" for time in times))]
    assert first is not None
    assert [ms - first for ms in others if ms is not None] == [11, 9, 9, 12, 13]


def test_a_time_alone_is_of_the_day_of_the_last_line_with_a_date() -> None:
    lines = parsed("22:13:20.123 [main] INFO a", "2023-11-16 22:13:20.123 [main] INFO b", "22:13:21.123 [main] INFO c")
    assert [line.epoch_ms for line in lines] == [AT_MS, AT_MS + 2 * 86_400_000, AT_MS + 2 * 86_400_000 + 1000]
