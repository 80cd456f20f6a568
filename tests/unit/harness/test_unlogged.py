"""`upheaval logs` shows a message of `logging` once, though the process also printed it."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from upheaval.records import Json, Manifest, RunFolder
from upheaval.report.logs import read_logs

SERVICE = """
import logging, sys
from upheaval_node.runtime.trace_logging import TraceHandler
from upheaval_node.runtime.tracer import FileTracer
from upheaval_node.types import Now, Ns

{configure}
tracer = FileTracer(sys.argv[1], member_id=0, component="all")
handler = TraceHandler(tracer, lambda: Now(Ns(5), 6))
handler.begin()
logger = logging.getLogger("locks")
logger.info("lock %d is free", 7)
logger.warning("lock: %d is taken", 7)
logger.warning("two\\nlines")
try:
    raise KeyError(5)
except KeyError:
    logger.exception("failed")
print("printed alone", file=sys.stderr)
handler.end()
tracer.close()
"""
MESSAGES = ["lock 7 is free", "lock: 7 is taken", "two\nlines", "failed"]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path)
    run.create(Manifest("run-1", "process", 1, "test", 0))
    run.member(0).path.mkdir()
    return run


def printed(run: RunFolder, *lines: str) -> None:
    (run.member(0).path / "all.log").write_text("".join(f"{line}\n" for line in lines))


def logged(run: RunFolder, *messages: tuple[str, str], component: str = "all") -> None:
    events: list[dict[str, Json]] = [
        {"ts": 1, "epoch_ms": 1, "component": component, "pid": 1, "event": "log", "level": level, "text": text}
        for level, text in messages
    ]
    run.member(0).trace.write_text("".join(json.dumps(event) + "\n" for event in events))


def shown(run: RunFolder) -> list[str]:
    return [line.text for line in read_logs(run)]


@pytest.mark.parametrize(
    "configure",
    ["", "logging.basicConfig()", f"logging.basicConfig(format='%(asctime)s %(levelname)s {logging.BASIC_FORMAT}')"],
    ids=["unconfigured", "basic", "with a time"],
)
def test_what_logging_prints_and_the_trace_has_is_shown_once(run: RunFolder, configure: str) -> None:
    command = [sys.executable, "-c", SERVICE.format(configure=configure), str(run.member(0).trace)]
    with (run.member(0).path / "all.log").open("w") as output:
        subprocess.run(command, stderr=output, check=True)
    copies = (run.member(0).path / "all.log").read_text()
    assert all(message.splitlines()[0] in copies for message in MESSAGES[1:])
    texts = shown(run)
    assert [text for text in texts if text == "printed alone"] == ["printed alone"]
    traced = [text.partition("\nTraceback")[0] for text in texts if text != "printed alone"]
    assert traced == [f"locks: {message}" for message in MESSAGES]


def test_each_message_explains_one_copy(run: RunFolder) -> None:
    logged(run, ("warning", "taken"))
    printed(run, "taken", "taken")
    assert shown(run) == ["taken", "None: taken"]


def test_a_print_with_the_text_of_an_info_message_stays(run: RunFolder) -> None:
    logged(run, ("info", "free"))
    printed(run, "free")
    assert shown(run) == ["free", "None: free"]


def test_another_process_explains_no_copy(run: RunFolder) -> None:
    logged(run, ("warning", "taken"), component="service-0")
    printed(run, "taken")
    assert shown(run) == ["taken", "None: taken"]


def test_a_message_that_ends_like_another_stays(run: RunFolder) -> None:
    logged(run, ("error", "no account"))
    printed(run, "there is no account", "ERROR:bank:there is no account")
    assert shown(run) == ["there is no account", "ERROR:bank:there is no account", "None: no account"]
