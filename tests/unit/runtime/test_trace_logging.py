"""What services write with `logging` is in the trace, bounded, between the start and the end of their process."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from upheaval_node.runtime.trace_logging import LINES_MAX, TraceHandler
from upheaval_node.runtime.tracer import FileTracer
from upheaval_node.types import Now, Ns

NOW = Now(Ns(5), 6)


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[Path]:
    """The trace of a process whose handler takes part during the test."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    path = tmp_path / "trace.jsonl"
    tracer = FileTracer(str(path), member_id=1, component="all")
    handler = TraceHandler(tracer, lambda: NOW)
    handler.begin()
    try:
        yield path
    finally:
        handler.end()
        logging.getLogger("locks").warning("too late")
        tracer.close()
        assert root.handlers == before
        root.setLevel(level)
        assert "too late" not in path.read_text()


def told(path: Path) -> list[tuple[str, str, str]]:
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert {each["event"] for each in events} == {"log"}
    return [(each["level"], each["logger"], each["text"]) for each in events]


def test_levels_are_those_of_the_logs(trace: Path) -> None:
    logger = logging.getLogger("locks")
    logger.debug("not wanted")
    logger.info("lock %d is free", 7)
    logger.warning("taken")
    try:
        raise KeyError(5)
    except KeyError:
        logger.exception("failed")
    assert told(trace) == [
        ("info", "locks", "lock 7 is free"),
        ("warning", "locks", "taken"),
        ("error", "locks", "failed"),
    ]
    assert "KeyError: 5" in json.loads(trace.read_text(encoding="utf-8").splitlines()[-1])["traceback"]


def test_a_service_that_logs_each_message_fills_no_disk(trace: Path) -> None:
    for number in range(LINES_MAX + 100):
        logging.getLogger("locks").info("message %d", number)
    lines = told(trace)
    assert len(lines) == LINES_MAX
    assert lines[-1][2] == f"more than {LINES_MAX} lines: the rest is not kept"
