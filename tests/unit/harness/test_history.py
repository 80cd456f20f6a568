"""The history file: what was written is read back, and a run folder's other files likewise."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from upheaval.errors import EnvironmentFault, UsageError
from upheaval.records import (
    RECORD_FILES,
    SHIPPED,
    Converge,
    FinalPosition,
    Function,
    HistoryWriter,
    Json,
    Manifest,
    Operation,
    Outcome,
    RunFolder,
    decode_operation,
    encode_operation,
    parse_object,
    read_history,
)
from upheaval_chaos.record import FaultRecord, Proof

SCALARS = st.one_of(st.integers(-(2**53), 2**53), st.text(max_size=20))


def test_operations_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    operations = [
        Operation(1, 0, Function.WRITE, "k", 5, 10, 20, Outcome.OK, None, 96),
        Operation(2, 1, Function.CAS, "k", [5, None], 11, 30, Outcome.OK, False, 192),
        Operation(3, 2, Function.LIST, "ä\n", None, 12, 40, Outcome.OK, [1, "two"], 288),
        Operation(4, 3, Function.APPEND, "k", 1, 13, None, Outcome.UNKNOWN, None, None),
    ]
    with HistoryWriter(tmp_path / "h.jsonl", buffer_length=3) as writer:
        for operation in operations:
            writer.add(operation)
    assert list(read_history(tmp_path / "h.jsonl")) == operations


def test_two_writers_append_whole_lines_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    with HistoryWriter(path, buffer_length=2) as first, HistoryWriter(path, buffer_length=3) as second:
        for number in range(20):
            writer = first if number % 2 else second
            writer.add(Operation(number, 0, Function.ECHO, "", "x", 1, 2, Outcome.OK, "x", 32))
    assert {operation.id for operation in read_history(path)} == set(range(20))


def test_a_history_that_does_not_exist_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"cannot read .*h.jsonl: No such file"):
        list(read_history(tmp_path / "h.jsonl"))


def test_bytes_that_are_no_text_are_named_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_bytes(b'{"id":\xff}\n')
    with pytest.raises(UsageError, match=r"h.jsonl:1: not UTF-8"):
        list(read_history(tmp_path / "h.jsonl"))


@given(st.sampled_from(SHIPPED), st.text(max_size=30), SCALARS, st.integers(0, 1 << 40))
def test_an_operation_survives_the_way_through_a_request(function: Function, key: str, a: int | str, b: int) -> None:
    values: dict[Function, Json] = {
        Function.CAS: [a, b],
        Function.READ: None,
        Function.LIST: None,
        Function.TRANSFER: [str(a), b],
        Function.BALANCES: None,
        Function.SCHEDULE: b,
        Function.CANCEL: b,
        Function.FIRED: None,
    }
    value = values.get(function, a)
    assert decode_operation(encode_operation(77, function, key, value)) == (77, function, key, value)


def test_the_manifest_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    manifest = Manifest(
        "id",
        "process",
        3,
        "test",
        1,
        seed=7,
        workload={"keys": 5},
        converge=Converge(True, 9, (FinalPosition(0, 64, 64, 2),)),
        written=RECORD_FILES,
    )
    run = RunFolder(tmp_path / "run")
    run.create(manifest)
    assert run.read_manifest() == manifest
    assert {path.name for path in run.path.iterdir()} == {"manifest.json", *RECORD_FILES}


def test_faults_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    proofs = (Proof(True, "pid 7 is gone"), Proof(False, "it does not come back"))
    faults = [
        FaultRecord("kill", "member-0", 1, 2, 3, 4, *proofs, (0,), "archive", "k", "kill 0", 7, 8, 1),
        FaultRecord("kill", "member-1", 5, 6),
    ]
    for fault in faults:
        run.add_fault(fault)
    assert list(run.read_faults()) == faults


def test_a_trace_line_that_was_cut_by_a_kill_is_left_out(tmp_path: Path) -> None:
    member = RunFolder(tmp_path).member(1)
    member.path.mkdir()
    member.trace.write_text('{"ts":1,"event":"a"}\n{"ts":2,"event":"b"}\n{"ts":3,"ev')
    assert [event.event for event in member.read_trace()] == ["a", "b"]


def test_lines_that_a_full_disk_tore_are_told_by_the_next_one(tmp_path: Path) -> None:
    member = RunFolder(tmp_path).member(1)
    member.path.mkdir()
    torn = '{"ts":2,"ev'
    told = '{"ts":4,"event":"d","lost_events_before":3}'
    member.trace.write_text(f'{{"ts":1,"event":"a"}}\n{torn}\n\n{torn}{{"ts":3,"event":"c"}}\n{told}\n{torn}\n{told}\n')
    events = [(event.line, event.event, event.fields.get("lost_events_before")) for event in member.read_trace()]
    assert events == [(1, "a", None), (5, "d", 3), (7, "d", 3)]


@pytest.mark.parametrize("line", ["{]", "[]", "{}", '{"ts":"x","event":"a"}', "nonsense"])
def test_what_no_member_can_have_begun_to_write_is_no_torn_line(line: str, tmp_path: Path) -> None:
    member = RunFolder(tmp_path).member(1)
    member.path.mkdir()
    member.trace.write_text(f'{line}\n{{"ts":1,"event":"a"}}\n')
    with pytest.raises(UsageError, match=r"trace\.jsonl:1: "):
        list(member.read_trace())


def test_a_line_of_history_is_json_with_the_documented_fields() -> None:
    operation = Operation(1, 0, Function.WRITE, "k", 5, 10, 20, Outcome.OK, None, 96)
    assert list(parse_object(operation.to_json())) == [
        "id",
        "process",
        "f",
        "key",
        "value",
        "invoke_ns",
        "complete_ns",
        "outcome",
        "result",
        "position",
    ]
