"""`protocol_rows.md`: what its rows name exists; at night, each is noticed when its code does nothing."""

import re

import pytest

import check_protocol_rows as rows
import protocol_row_noop
from architecture.source_tree import python_files
from upheaval_node.cluster.egress import EgressPublisher
from upheaval_node.cluster.election_ballot import BallotStates
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.service.entries import EntryApplier

TEXT = rows.PAGE.read_text(encoding="utf-8")
DOC = (rows.ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")


def test_every_row_names_what_is_there_and_nothing_of_the_documents_is_left_out() -> None:
    assert rows.quick_problems(TEXT) == []


def test_the_page_has_every_message_of_the_documents() -> None:
    names = {message for messages in rows.DOCUMENTED.values() for message in messages}
    assert {name for name in names if not re.search(rf"^\| {name}\b", DOC, re.MULTILINE)} == set()


def test_code_and_page_agree_on_the_election_rules_that_differ_from_aeron() -> None:
    named = {
        row
        for file in python_files("node/upheaval_node")
        for row in re.findall(r"# Differs from Aeron \(docs/protocol\.md, (\w+)\)", file.text)
    }
    assert named == set(re.findall(r"^\| (E\d+) \|", DOC, re.MULTILINE)) != set()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "`cluster.election_ballot.BallotStates.on_vote`",
            "`cluster.election_ballot.BallotStates.on_no`",
            "no function",
        ),
        ("| `test_election_scripts::election`", "| `test_election_scripts::selection`", "there is no test"),
        ("| Vote.vote |", "| Vote.veto |", "no row for the field Vote.vote"),
        ("| StopCatchup (consensus) |", "| (consensus) |", "no row for the message StopCatchup (consensus)"),
        ("| interval | default |", "| gap | default |", "there is no table of intervals"),
        ("| TimerEvent (log), in a service |", "| TimerEvent (log), in a service |", ""),
    ],
)
def test_a_row_that_is_wrong_or_missing_is_named(old: str, new: str, problem: str) -> None:
    assert old in TEXT
    problems = rows.quick_problems(TEXT.replace(old, new))
    assert any(problem in each for each in problems) if problem else problems == []


def test_a_function_that_does_nothing_gives_the_plainest_value(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep(owner: type, name: str) -> None:
        monkeypatch.setattr(owner, name, owner.__dict__[name])

    keep(BallotStates, "_canvass")
    keep(EgressPublisher, "send_challenge")
    keep(EntryApplier, "apply")
    protocol_row_noop.disable("cluster.election_ballot.BallotStates._canvass")
    protocol_row_noop.disable("cluster.egress.EgressPublisher.send_challenge")
    protocol_row_noop.disable("service.entries.EntryApplier.apply[TimerEvent]")
    assert BallotStates._canvass(None, None) == 0  # type: ignore[arg-type]  # it looks at nothing
    assert EgressPublisher.send_challenge(None, b"") is False  # type: ignore[arg-type]
    assert EntryApplier.apply(None, cm.TimerEvent(1, 2, 3), 64) is None  # type: ignore[arg-type, func-returns-value]
    with pytest.raises(AttributeError):
        EntryApplier.apply(None, cm.SessionCloseEvent(1, 2, 3, cm.CloseReason.TIMEOUT), 64)  # type: ignore[arg-type]


def test_a_row_whose_tests_see_nothing_is_told_from_one_whose_tests_do() -> None:
    sees = rows.Row(
        "message", 1, "x", ("cluster.timers.Timers.on_event",), ("test_timers::a_timer_of_the_same_id_is_replaced",)
    )
    other = ("test_timers::an_expiry_in_the_log_ends_a_timer_of_a_snapshot",)
    assert "no test of the row notices" in rows.is_noticed(sees)
    assert rows.is_noticed(rows.Row("message", 1, "x", sees.code, other)) == ""


@pytest.mark.parametrize("names", [(), ("test_timers::a_timer_that_is_gone",)])
def test_a_row_without_a_test_that_is_there_is_refused(names: tuple[str, ...]) -> None:
    row = rows.Row("message", 1, "x", ("cluster.timers.Timers.on_event",), names)
    assert "there is no test" in rows.is_noticed(row)


def test_without_a_row_nothing_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert rows.main(["--only", "no row has this name"]) == 1
    assert capsys.readouterr().err == "there is no such row to try\n"


@pytest.mark.parametrize("draw", ["x", "1:", "1:x"])
def test_a_draw_that_is_none_is_refused(draw: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        rows.main(["--rows", draw])
    assert raised.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.nightly
@pytest.mark.parametrize("row", rows.triable(TEXT), ids=lambda row: f"{row.name}-{row.line}")
def test_some_test_of_the_row_notices_that_its_code_does_nothing(row: rows.Row) -> None:
    assert rows.is_noticed(row) == ""
