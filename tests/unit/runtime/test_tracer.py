"""The trace file: complete lines, before anything else happens, whatever happens then."""

import json
import os
import signal
from pathlib import Path

from hypothesis import HealthCheck, given, settings, strategies as st

from unit.runtime.parties import child, read_line
from upheaval_node.runtime.exit_status import ExitStatus
from upheaval_node.runtime.tracer import FileTracer
from upheaval_node.types import Now

OWN_NAMES = {"ts", "epoch_ms", "event", "member", "component", "pid", "lost_events_before", "self", "now"}


def test_a_line_names_time_member_component_and_event(tmp_path: Path) -> None:
    tracer = FileTracer(str(tmp_path / "t" / "trace.jsonl"), member_id=2, component="consensus", run_id="r1")
    tracer.emit(Now(5, 6), "vote", term=3, granted=True, reason=None, member="shadowed")
    tracer.close()
    record = json.loads((tmp_path / "t" / "trace.jsonl").read_text())
    assert record == {
        "ts": 5,
        "epoch_ms": 6,
        "member": 2,
        "component": "consensus",
        "pid": os.getpid(),
        "run": "r1",
        "event": "vote",
        "term": 3,
        "granted": True,
        "reason": None,
        "field_member": "shadowed",
    }


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(),
    st.dictionaries(
        st.text(min_size=1).filter(lambda name: name not in OWN_NAMES),
        st.one_of(st.text(), st.integers(-(1 << 63), 1 << 63), st.booleans(), st.none()),
    ),
)
def test_any_text_and_value_comes_back(tmp_path: Path, event: str, fields: dict[str, int | str | bool | None]) -> None:
    path = tmp_path / "trace.jsonl"
    path.unlink(missing_ok=True)
    tracer = FileTracer(str(path), member_id=1, component="all")
    tracer.emit(Now(5, 6), event, **fields)
    tracer.close()
    record = json.loads(path.read_text())
    assert {name: value for name, value in record.items() if name not in OWN_NAMES} == fields
    assert record["event"] == event


def test_an_enum_is_written_as_its_number(tmp_path: Path) -> None:
    tracer = FileTracer(str(tmp_path / "t"), member_id=1, component="all")
    tracer.emit(Now(5, 6), "end", status=ExitStatus.TERMINATED)
    assert json.loads((tmp_path / "t").read_text())["status"] == 7


def test_lines_survive_the_kill_of_the_process_right_after(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    code = """
        import os, signal, sys
        from upheaval_node.runtime.tracer import FileTracer
        from upheaval_node.types import Now
        tracer = FileTracer(sys.argv[1], member_id=0, component="all")
        for number in range(100):
            tracer.emit(Now(number, 0), "event", number=number)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    with child(code, str(path)) as process:
        assert process.wait() == -signal.SIGKILL
    numbers = [json.loads(line)["number"] for line in path.read_text().splitlines()]
    assert numbers == list(range(100))


def test_two_processes_share_one_file_without_mixing_lines(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    code = """
        import sys
        from upheaval_node.runtime.tracer import FileTracer
        from upheaval_node.types import Now
        tracer = FileTracer(sys.argv[1], member_id=0, component=sys.argv[2])
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(500):
            tracer.emit(Now(number, 0), "event", text="x" * (number % 300))
    """
    with child(code, str(path), "archive") as first, child(code, str(path), "service-0") as second:
        for process in (first, second):
            assert read_line(process) == b"ready"
        for process in (first, second):
            assert process.stdin is not None
            process.stdin.write(b"go\n")
            process.stdin.flush()
        assert first.wait() == second.wait() == 0
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for component in ("archive", "service-0"):
        assert [record["ts"] for record in records if record["component"] == component] == list(range(500))


def test_a_full_disk_loses_events_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    code = """
        import os, resource, signal, sys
        from upheaval_node.runtime.tracer import FileTracer
        from upheaval_node.types import Now
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        tracer = FileTracer(sys.argv[1], member_id=0, component="all")
        for number in range(50):
            tracer.emit(Now(number, 0), "event")
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        tracer.emit(Now(50, 0), "event")
        tracer.emit(Now(51, 0), "event")
        print("done", flush=True)
    """
    with child(code, str(path)) as process:
        assert read_line(process) == b"done"
    lines = [line for line in path.read_text().splitlines() if line]
    whole = [json.loads(line) for line in lines if line.endswith("}")]
    after = next(record for record in whole if record["ts"] == 50)
    before = [record["ts"] for record in whole if record["ts"] < 50]
    assert after["lost_events_before"] == 50 - len(before)
    assert "lost_events_before" not in whole[-1]
