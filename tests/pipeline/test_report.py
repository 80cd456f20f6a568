"""The page of a run: complete in itself, safe whatever the run holds, and drawn by a real browser. Needs no Spark."""

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from support.built_runs import good_run, operation_index
from upheaval.cli.main import main
from upheaval.cli.report import write_report
from upheaval.history import Function
from upheaval.run_folder import FaultRecord, RunFolder, TraceEvent
from upheaval_pipeline.figures import ELECTION, FOLLOWER, LEADER, measure_run, member_spans

EVIL = "</td><script>document.title='owned'</script><img src=x onerror=alert(1)>\"'"


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.links += [name for name, _ in attrs if name in ("src", "href", "onerror")]
        if tag not in ("meta", "line", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def evil_run(path: Path) -> None:
    """A broken run whose values, fault and host are attempts to get into the page."""
    built = good_run()
    index = operation_index(built, lambda o: o.f is Function.READ, after=50)
    built.operations[index] = replace(built.operations[index], result=EVIL)
    built.manifest = replace(built.manifest, host=EVIL, service=EVIL, created=EVIL)
    run = built.write(path)
    run.add_fault(FaultRecord(EVIL, "member-1", 100_000, 110_000, 200_000, 210_000, EVIL))


def test_the_page_is_whole_and_lets_nothing_in(tmp_path: Path) -> None:
    evil_run(tmp_path)
    text = write_report(tmp_path).read_text()
    tags = _Tags()
    tags.feed(text)
    assert tags.open == []
    assert not tags.seen & {"script", "img", "link", "iframe", "object"}
    assert tags.links == []
    assert not re.search(r"https?://|url\(|@import", text)
    assert "invalid</td>" in text
    assert "&lt;script&gt;" in text
    assert "prefers-color-scheme: dark" in text


def test_a_browser_draws_it_and_runs_nothing(tmp_path: Path) -> None:
    evil_run(tmp_path)
    page = write_report(tmp_path, tmp_path / "page.html")
    chromium = shutil.which("chromium")
    assert chromium is not None
    common = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    picture = tmp_path / "page.png"
    subprocess.run(
        [*common, f"--user-data-dir={tmp_path}/a", f"--screenshot={picture}", page.as_uri()],
        check=True,
        capture_output=True,
        timeout=120,
    )
    assert picture.stat().st_size > 10_000
    dumped = subprocess.run(
        [*common, f"--user-data-dir={tmp_path}/b", "--dump-dom", page.as_uri()],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "<title>Upheaval: invalid</title>" in dumped.stdout
    assert dumped.stdout.count("<svg") == 3


def test_a_run_without_anything_still_has_a_page(tmp_path: Path) -> None:
    built = good_run(0)
    built.traces = [[], [], []]
    built.converged = False
    built.write(tmp_path)
    (tmp_path / "history.jsonl").unlink()
    assert "unknown" in write_report(tmp_path).read_text()


def test_figures_of_a_run_with_an_outage(tmp_path: Path) -> None:
    built = good_run()
    second = 10**9
    later = [
        replace(o, invoke_ns=o.invoke_ns + second, complete_ns=o.complete_ns + second if o.complete_ns else None)
        for o in built.operations[200:]
    ]
    built.operations[200:] = later
    term = '{"ts":%d,"member":2,"event":"leadership_term","leadership_term_id":1,"leader_member_id":2}'
    built.traces[2].append(term % (second // 2))
    run = built.write(tmp_path)
    run.add_fault(FaultRecord("kill", "member-0", 200_000, 210_000, 2 * second, 2 * second + 1))
    figures = measure_run(RunFolder(tmp_path))
    (gap,) = figures.gaps
    assert 0.99 * second < gap[1] - gap[0] < 1.01 * second
    assert sum(bucket.count for bucket in figures.buckets) == figures.counts["ok"] == 380
    (fault,) = figures.faults
    assert fault.new_leader_ns == second // 2 - 200_000
    assert fault.first_answer_ns is not None
    assert fault.first_answer_ns > fault.new_leader_ns
    assert fault.before is not None
    assert fault.during is not None


def event(ns: int, name: str, **fields: str | int) -> TraceEvent:
    return TraceEvent(1, ns, name, fields)


def test_a_killed_member_is_down_until_its_next_process() -> None:
    events = [
        event(0, "process-start"),
        event(10, "role", new="LEADER"),
        event(11, "leadership_term", leadership_term_id=4),
        event(20, "election_state", state="CLOSED"),
        event(30, "send"),
        event(60, "process-start"),
        event(70, "election_state", state="CLOSED"),
        event(90, "process-end"),
    ]
    spans = [(s.begin, s.end, s.state, s.term) for s in member_spans(events, 0, 100)]
    assert spans == [
        (0, 10, ELECTION, None),
        (10, 30, LEADER, 4),
        (30, 60, "down", None),
        (60, 70, ELECTION, None),
        (70, 90, FOLLOWER, None),
        (90, 100, "down", None),
    ]


def test_the_commands_need_no_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good_run().write(tmp_path)
    assert main(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path / "report.html")
    assert main(["measure", str(tmp_path)]) == 0
    assert "380 ok" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "nowhere")]) == 2
