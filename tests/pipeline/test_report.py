"""The page of a run: complete in itself, safe whatever the run holds, and drawn by a real browser. Needs no Spark."""

import base64
import hashlib
import json
import re
import shutil
import socket
import struct
import subprocess
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from support.built_runs import good_run, lost_operation, operation_index
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.cli.main import main
from upheaval.cli.report import write_report
from upheaval.records import (
    Failure,
    Function,
    Operation,
    Outcome,
    RuleBroken,
    RunFolder,
    TraceEvent,
)
from upheaval.report import (
    ELECTION,
    FOLLOWER,
    LEADER,
    FaultFigures,
    Moment,
    Moments,
    catch_ups,
    duration,
    measure_run,
    member_spans,
    positions_of,
    scene_of,
)
from upheaval.report.document import STYLE
from upheaval.report.moments import beside_fault
from upheaval.report.page import SCRIPTS, page
from upheaval_chaos.record import FaultRecord, Proof

EVIL = "</td><script>document.title='owned'</script><img src=x onerror=alert(1)>\"'"


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        # A link to a place in the page itself fetches nothing.
        fetched = [(name, value) for name, value in attrs if name in ("src", "href", "onerror")]
        self.links += [name for name, value in fetched if name != "href" or not str(value).startswith("#")]
        if tag not in ("meta", "line", "path", "input", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def evil_run(path: Path, evil: str = EVIL) -> None:
    """A broken run whose values, fault and host are attempts to get into the page."""
    built = good_run()
    index = operation_index(built, lambda o: o.f is Function.READ, after=50)
    built.operations[index] = replace(built.operations[index], result=evil)
    built.manifest = replace(built.manifest, host=evil, service=evil, created=evil)
    run = built.write(path)
    run.add_fault(
        FaultRecord(evil, "member-1", 100_000, 110_000, 200_000, 210_000, Proof(True, evil), Proof(True, evil))
    )


def test_the_page_is_whole_and_lets_nothing_in(tmp_path: Path) -> None:
    evil_run(tmp_path)
    text = write_report(tmp_path).read_text()
    tags = _Tags()
    tags.feed(text)
    assert tags.open == []
    assert not tags.seen & {"img", "link", "iframe", "object"}
    assert tags.links == []
    assert re.findall(r"<script[^>]*>", text) == ['<script type="application/json" id="data">', "<script>", "<script>"]
    for script in SCRIPTS:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in unescape(text)
        text = text.replace(f"<script>{script}</script>", "")
    assert "<script>" not in text
    assert not re.search(r"https?://|url\(|@import", text)
    assert "invalid</td>" in text
    assert "&lt;script&gt;" in text
    assert "prefers-color-scheme: dark" in text


DARK, LIGHT = "dark", "light"
_CHROMIUM_SCHEME = {DARK: 0, LIGHT: 1}


def browse(page: Path, folder: Path, scheme: str, action: str) -> str:
    """Let a real browser open a page; return what it prints."""
    chromium = shutil.which("chromium")
    assert chromium is not None
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command += ["--window-size=900,1500", f"--blink-settings=preferredColorScheme={_CHROMIUM_SCHEME[scheme]}"]
    command += [f"--user-data-dir={folder / 'profile'}", action, page.as_uri()]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def png_rows(data: bytes) -> list[bytes]:
    """The rows of a picture with three or four bytes a pixel (PNG specification, chapters 5 and 9)."""
    offset, packed, width, depth = 8, b"", 0, 0
    while offset < len(data):
        length, kind = struct.unpack_from(">I4s", data, offset)
        body = data[offset + 8 : offset + 8 + length]
        if kind == b"IHDR":
            width, _, bits, colours = struct.unpack_from(">IIBB", body)
            assert bits == 8
            depth = {2: 3, 6: 4}[colours]
        packed += body if kind == b"IDAT" else b""
        offset += length + 12
    raw, stride = zlib.decompress(packed), width * depth + 1
    rows = [bytes(stride - 1)]
    for begin in range(0, len(raw), stride):
        rows.append(unfiltered(raw[begin], bytearray(raw[begin + 1 : begin + stride]), rows[-1], depth))
    return [row if depth == 3 else bytes(b for i, b in enumerate(row) if i % 4 != 3) for row in rows[1:]]


def unfiltered(kind: int, row: bytearray, above: bytes, depth: int) -> bytes:
    for i in range(len(row)) if kind else ():
        a = row[i - depth] if i >= depth else 0
        b, c = above[i], above[i - depth] if i >= depth else 0
        p = a + b - c
        paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
        row[i] = row[i] + (0, a, b, (a + b) // 2, paeth)[kind] & 0xFF
    return bytes(row)


def colours(scheme: str) -> dict[str, bytes]:
    """The colours of the page by their names in its style."""
    light, dark = STYLE.split("@media (prefers-color-scheme: dark)")[:2]
    found = dict(re.findall(r"--(\w+):(#\w+)", light))
    if scheme == DARK:
        found |= dict(re.findall(r"--(\w+):(#\w+)", dark))
    doubled = {name: code[1:] if len(code) == 7 else "".join(c * 2 for c in code[1:]) for name, code in found.items()}
    return {name: bytes.fromhex(code) for name, code in doubled.items()}


def luminance(colour: bytes) -> float:
    parts = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("scheme", [DARK, LIGHT])
def test_what_is_written_can_be_read(scheme: str) -> None:
    """Contrast as WCAG 2 defines it: 4.5 to 1 for text."""
    by_name = colours(scheme)
    pairs = [
        ("ink", "card"),
        ("ink", "page"),
        ("soft", "card"),
        ("soft", "page"),
        ("valid", "card"),
        ("invalid", "card"),
    ]
    pairs += [("unknown", "card"), ("onfollower", "follower"), ("onelection", "election"), ("fault", "card")]
    # Of the diagrams of messages, and of what JavaScript writes: axe-core measures neither.
    pairs += [("leader", "card"), ("p99", "card"), ("onleader", "leader"), ("ondown", "down"), ("order", "card")]
    for text, ground in pairs:
        low, high = sorted(luminance(by_name[name]) for name in (text, ground))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (text, ground)


@pytest.mark.parametrize("scheme", [DARK, LIGHT])
def test_a_browser_draws_it_and_runs_and_fetches_nothing(tmp_path: Path, scheme: str) -> None:
    """A page that asks for the same picture, and is not ours, shows that a fetch would be seen."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        fetch = f"<img src=http://127.0.0.1:{server.getsockname()[1]}/picture>"
        evil_run(tmp_path / "run", EVIL + fetch)
        page = write_report(tmp_path / "run", tmp_path / "page.html")
        picture = tmp_path / "page.png"
        browse(page, tmp_path, scheme, f"--screenshot={picture}")
        document = browse(page, tmp_path, scheme, "--dump-dom")
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
        control = tmp_path / "control.html"
        control.write_text(fetch)
        server.setblocking(True)
        with ThreadPoolExecutor(1) as pool:
            fetched = pool.submit(lambda: server.accept()[0].close())
            browse(control, tmp_path, scheme, f"--screenshot={tmp_path / 'control.png'}")
            fetched.result(timeout=60)
    rows = png_rows(picture.read_bytes())
    assert "<title>✗ invalid: " in document
    assert document.count("<canvas") == 5
    by_name = colours(scheme)
    assert rows[0][:3] == by_name["page"]
    shown = Counter(row[i : i + 3] for row in rows for i in range(0, len(row), 3))
    assert shown[by_name["card"]] > 100_000
    assert shown[by_name["ink"]] > 300  # the insides of letters
    assert shown[by_name["soft"]] > 300
    assert shown[by_name["invalid"]] > 100


def test_a_run_in_containers_with_faults_of_links_has_its_page(tmp_path: Path) -> None:
    """A fault of several links is named as it was recorded."""
    built = good_run()
    built.manifest = replace(built.manifest, runtime="docker", components="split")
    links = "link member-0 > member-1 log, link member-0 > member-2 log"
    built.faults = [
        FaultRecord("cut", links, 100_000, 110_000, 200_000, 210_000, Proof(True, "0 bytes"), Proof(True, "512 bytes")),
        FaultRecord(
            "latency", "link client > member-2", 105_000, 115_000, inject_proof=Proof(False, "no byte was late")
        ),
        FaultRecord("kill", "member-0", 390_000, 391_000, 395_000, 396_000, Proof(True, "gone: container 5")),
    ]
    built.write(tmp_path)
    text = write_report(tmp_path).read_text()
    assert "docker runtime" in text
    for name in (f"cut {links}", "latency link client > member-2", "kill member-0"):
        assert f'<td class="n">{escape(name)}</td>' in text
    assert "not proved: no byte was late" in text
    assert "0 bytes; healed: 512 bytes" in text
    assert "unknown</td>" in text


def test_the_first_sentence_says_what_broke_when_and_beside_which_fault(tmp_path: Path) -> None:
    lost = lost_operation(tmp_path)
    text = write_report(tmp_path).read_text()
    answer = text[text.index('<p class="answer invalid">') : text.index('<section id="verdict">')]
    assert Promise.ACKNOWLEDGED_NOT_LOST.sentence in answer
    assert f"Broken promise: {Promise.ACKNOWLEDGED_NOT_LOST.sentence}" in answer
    assert re.search(r'</b>, <a href="#t=0.\d{6}">0.\d{3} s into the run</a>, \S+ \S+ after kill member-0', answer)
    assert f"operation id={lost} " in answer
    assert f'<a href="#op-{lost}">operation {lost}</a>' in text
    assert "planted bug commit-without-a-quorum" in text
    account = text[text.index('<section id="how-it-broke">') :].partition("</section>")[0]
    assert re.search(r"0.\d{3} s into the run</a>, \S+ \S+ after the last answer", account)
    for member in range(3):
        assert f'<td class="n">member {member}</td>' in account
    assert "messages are not shown without a protocol trace" in account
    assert re.search(r'<th scope="col">in its log at position \d+, at the end of the run</th>', account)


def test_broken_promises_come_first_by_their_moments_and_the_rest_is_counted_and_folded(tmp_path: Path) -> None:
    run = good_run().write(tmp_path)
    manifest, figures = run.read_manifest(), measure_run(run)
    cause = Finding(Promise.COMMITS_KEPT, Verdict.INVALID, "no quorum has it", position=608)
    effect = Finding(Promise.ACKNOWLEDGED_NOT_LOST, Verdict.INVALID, "it is gone", operation=150)
    undecided = [
        Finding(promise, Verdict.UNKNOWN, "no phase") for promise in (Promise.RUN_CONVERGED, Promise.RUN_ENDED)
    ]
    moments = {cause: Moment(73_000_000, is_exact=False), effect: Moment(815_000_000, is_exact=True)}
    scene = scene_of(run, manifest, figures, [])

    def text_of(*findings: Finding) -> str:
        return page(manifest, Report("run", findings, ()), figures, scene=scene, moments=moments)

    text = text_of(undecided[0], effect, undecided[1], cause)
    answer, _, rest = text.partition('<section id="verdict">')
    answer = answer[answer.index('<p class="answer invalid">') :]
    assert f"<b>Broken promise: {cause.promise.sentence}</b>" in answer
    assert f"Then broken: {effect.promise.sentence}, " in answer
    assert '<a href="#verdict">2 broken, 2 unknown</a>' in answer
    shown, folded, _ = rest.partition("<details><summary>2 unknown: reasons</summary>")
    assert folded
    assert shown.index(cause.detail) < shown.index(effect.detail)
    assert "no phase" not in shown
    only_unknown = text_of(*undecided)
    assert "<b>Unknown: the run" in only_unknown
    assert "unknown: reasons" not in only_unknown
    undated = Finding(Promise.SNAPSHOT_IS_REPLAY, Verdict.INVALID, "no moment")
    assert f"Also broken: {undated.promise.sentence}." in text_of(cause, undated)
    general = Finding(Promise.INVARIANTS, Verdict.INVALID, "it is gone")
    assert "Then broken" not in text_of(cause, general)


def test_a_valid_page_counts_and_folds_what_was_not_checked(tmp_path: Path) -> None:
    good_run().write(tmp_path)
    text = write_report(tmp_path).read_text()
    (kept, unchecked) = map(int, re.findall(r'<p class="answer valid">Promises: (\d+) kept, (\d+) not', text)[0])
    assert kept > 10
    assert f"<summary>{unchecked} not checked: reasons</summary>" in text


@pytest.mark.parametrize(("seconds", "where"), [(0.5, "1.5 s before the first fault"), (2.25, "250 ms after kill")])
def test_a_moment_is_placed_among_the_faults(seconds: float, where: str) -> None:
    fault = FaultFigures("kill", "member-0", 2 * 10**9, 3 * 10**9, "gone", None, None, None, None, None)
    assert beside_fault(Moment(int(seconds * 1e9), True), [fault]).startswith(where)
    assert beside_fault(Moment(1, True), []) == ""


def test_the_page_of_a_long_run_is_bounded_and_says_so(tmp_path: Path) -> None:
    """Whatever is left out, an operation without an answer and the slowest one are there, and rates are of all."""
    count, unknown_id, slowest_id = 150_000, 77_777, 123_457
    built = good_run(0)
    ends: list[int | None] = [index * 1000 + 500 for index in range(count)]
    ends[unknown_id], ends[slowest_id] = None, slowest_id * 1000 + 90_000
    built.operations = [
        Operation(
            index, 0, Function.READ, "k", None, index * 1000, end, Outcome.OK if end is not None else Outcome.UNKNOWN
        )
        for index, end in enumerate(ends)
    ]
    run = built.write(tmp_path)
    manifest, figures = run.read_manifest(), measure_run(run)
    scene = scene_of(run, manifest, figures, [])
    shown = scene["operations"]["id"]
    assert len(shown) == len(scene["frames"]["end"]) == 100_000
    assert shown == sorted(set(shown))
    assert {unknown_id, slowest_id} <= set(shown)
    assert len(scene["answers"]["at"]) <= 100_000
    assert abs(len(scene["answers"]["at"]) * scene["answers"]["each"] - count) <= 2
    assert scene["counts"] == {"kind": {"read": count}, "outcome": {"ok": count - 1, "unknown": 1}}
    text = page(manifest, Report("run", (), ()), figures, scene=scene)
    assert "100,000 of 150,000 operations are in this page: 1 of the 1 that failed or are unknown" in text


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
    gap, at_end = figures.gaps
    assert 0.99 * second < gap[1] - gap[0] < 1.01 * second
    assert at_end == (figures.load[1], figures.length_ns)  # with requests to answer
    assert sum(bucket.count for bucket in figures.buckets) == figures.counts["ok"] == 380
    (fault,) = figures.faults
    assert fault.new_leader_ns == second // 2 - 200_000
    assert fault.first_answer_ns is not None
    assert fault.first_answer_ns > fault.new_leader_ns
    assert fault.before is not None
    assert fault.during is not None


def election(ns: int, state: str, position: int) -> TraceEvent:
    return event(ns, "election_state", state=state, append_position=position)


def test_how_fast_a_member_caught_up_is_measured() -> None:
    """From the first state in which it gets what it missed to the one after that; each time it comes back."""
    second = 10**9
    events = [
        election(0, "CANVASS", 100),
        election(second, "FOLLOWER_REPLAY", 100),
        election(2 * second, "FOLLOWER_CATCHUP_INIT", 100),
        election(3 * second, "FOLLOWER_CATCHUP", 100),
        election(4 * second, "FOLLOWER_LOG_INIT", 2100),
        election(5 * second, "CLOSED", 2100),
        election(6 * second, "FOLLOWER_CATCHUP", 2100),
        event(7 * second, "process-start"),
        election(8 * second, "FOLLOWER_READY", 9000),
        election(9 * second, "FOLLOWER_CATCHUP", 9000),
        election(10 * second, "CLOSED", 9000),
    ]
    (found,) = catch_ups({4: events}, second)
    assert (found.member, found.begin, found.end) == (4, second, 3 * second)
    assert found.rate == 1000.0


def event(ns: int, name: str, **fields: str | int) -> TraceEvent:
    return TraceEvent(1, ns, name, fields)


def test_the_position_of_a_member_goes_back_by_what_it_says_of_its_own_log_alone() -> None:
    """A leader that begins, or ends, tells of nothing committed; a log that is cut in an election is shorter."""
    told = [
        (0, event(10, "send", message="CommitPosition", log_position=500)),
        (1, event(11, "send", message="AppendPosition", log_position=400)),
        (0, event(12, "send", message="CommitPosition", log_position=0)),
        (0, event(13, "receive", message="AppendPosition", log_position=900)),
        (0, election(14, "CANVASS", 600)),
        (0, election(15, "CANVASS", 550)),
        (1, election(16, "INIT", -1)),
    ]
    assert positions_of(told, 10) == {0: [(0, 500, 0), (4, 600, 0), (5, 550, 50)], 1: [(1, 400, 100)]}


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


@pytest.mark.parametrize("system", ["upheaval", "aeron:1.51.0"])
def test_the_page_says_what_the_members_are(system: str, tmp_path: Path) -> None:
    good_run().write(tmp_path)
    run = RunFolder(tmp_path)
    run.write_manifest(replace(run.read_manifest(), system=system))
    assert f'<span class="where">3 members of {system} · ' in write_report(run.path).read_text()


def test_what_was_seen_to_break_while_the_run_went_on_has_that_moment(tmp_path: Path) -> None:
    built = good_run()
    rule = RuleBroken("ballot", member=0, ns=300_000)
    built.manifest = replace(built.manifest, failures=(Failure("invariants", "member 0 voted", rule),))
    moments = Moments(built.write(tmp_path))
    assert moments.start_ns is not None
    broken = Finding(Promise.INVARIANTS, Verdict.INVALID, "member 0 voted")
    assert moments.of(broken) == Moment(300_000 - moments.start_ns, is_exact=True)
    assert moments.of(replace(broken, promise=Promise.LINEARIZABLE)) is None


def test_figures_of_the_page_are_those_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = good_run()
    built.faults = [FaultRecord("kill", "member-0", 390_000, 391_000, 395_000, 396_000, Proof(True, "gone"))]
    built.write(tmp_path)
    cards = re.findall(r'<div class="card"><b>(.*?)</b><span>(.*?)</span>', write_report(tmp_path).read_text())
    assert main(["measure", "--json", str(tmp_path)]) == 0
    (fields,) = json.loads(capsys.readouterr().out).values()
    assert {name: value for value, name in cards} == {
        "operations acknowledged": f"{fields['counts']['ok']:,}",
        "with unknown outcome": f"{fields['counts']['unknown']:,}",
        "answers a second": f"{fields['rate']:,.0f}",
        "median latency": duration(fields["latency"][0]),
        "99th percentile": duration(fields["latency"][1]),
        "longest time without an answer": "none",
    }
    assert fields["gaps"] == []
