"""The page of a run in a browser: it zooms, shows an operation and its frames, finds, prints, and bears many points."""

import base64
import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.browser import Browser
from support.built_runs import good_run, lost_operation, operation_index
from upheaval.cli.report import write_report
from upheaval.records import Outcome
from upheaval_chaos.record import FaultRecord, Proof

MANY = 100_000
COUNTED = """
window.painted = 0;
for (const name of ["fillRect", "fill", "stroke", "lineTo", "arc", "fillText"]) {
  const kept = CanvasRenderingContext2D.prototype[name];
  CanvasRenderingContext2D.prototype[name] = function (...given) { window.painted++; return kept.apply(this, given); };
}
"""
FAULTS = [
    FaultRecord("cut", "link client > member-2", 100_000, 110_000, 200_000, 210_000, Proof(True, "0 bytes")),
    FaultRecord("latency", "link client > member-1", 105_000, 115_000, None, None, Proof(False, "no byte was late")),
    FaultRecord("kill", "member-0", 390_000, 391_000, 395_000, 396_000, Proof(True, "gone: container 5")),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Browser]:
    """The page of a short run with three faults, whose names would overlap."""
    built = good_run()
    built.faults = list(FAULTS)
    built.write(tmp_path)
    browser.complaints.clear()
    browser.open(write_report(tmp_path))
    yield browser
    assert browser.complaints == []


def shown_window(browser: Browser) -> tuple[float, float]:
    begin, end = browser.value("[timeLine.from, timeLine.to]")
    return begin, end


def box(browser: Browser, expression: str) -> dict[str, Any]:
    """The rectangle of an element on the screen, after it was scrolled there."""
    browser.value(f"{expression}.scrollIntoView({{block: 'center'}})")
    browser.settle()
    found: dict[str, Any] = browser.value(f"{expression}.getBoundingClientRect().toJSON()")
    return found


def test_keys_buttons_and_dragging_move_all_charts(opened: Browser) -> None:
    begin, end = shown_window(opened)
    assert begin == 0
    opened.key("+")
    zoomed = shown_window(opened)
    assert zoomed == pytest.approx((end / 6, end * 5 / 6))
    opened.key("ArrowLeft")
    assert shown_window(opened)[0] < zoomed[0]
    place = box(opened, "timeLine.charts[2].over")
    x, y = place["left"], place["top"] + place["height"] / 2
    before = shown_window(opened)
    opened.mouse((x + place["width"] / 4, y), (x + place["width"] / 3, y), (x + place["width"] / 2, y))
    length = before[1] - before[0]
    assert shown_window(opened) == pytest.approx((before[0] + length / 4, before[0] + length / 2), rel=0.02)
    scales = opened.value("timeLine.charts.map(each => [each.scales.x.min, each.scales.x.max])")
    assert scales == [list(shown_window(opened))] * 5
    opened.value("document.querySelector('[data-key=\"0\"]').click()")
    opened.settle()
    assert shown_window(opened) == (0, end)


def test_a_click_shows_an_operation_and_its_frame_on_each_member(opened: Browser) -> None:
    place = box(opened, "timeLine.charts[1].over")
    wanted = 120
    x, y = opened.value(f"timeLine.at(timeLine.charts[1], {wanted})")
    left, top = opened.value("[timeLine.charts[1].bbox.left, timeLine.charts[1].bbox.top]")
    opened.mouse((place["left"] + x - left, place["top"] + y - top))
    picked = opened.value("timeLine.selected")
    assert opened.value("run.operations.outcome")[picked] == "ok"
    assert opened.value("document.querySelector('#details h3').textContent").startswith(
        f"operation {opened.value('run.operations.id')[picked]}: "
    )
    rows = opened.value("[...document.querySelectorAll('#details table')[0].rows].map(r => r.innerText.split('\\t'))")
    assert [row[0] for row in rows[1:]] == ["member 0", "member 1", "member 2"]
    assert len({tuple(row[1:]) for row in rows[1:]}) == 1
    assert re.fullmatch("[0-9a-f]{8}", rows[1][3])
    opened.key("n")
    assert opened.value("timeLine.selected") == picked + 1
    opened.key("Escape")
    assert opened.value("document.getElementById('details').childElementCount") == 0


def test_a_frame_that_one_member_has_otherwise_is_named(browser: Browser, tmp_path: Path) -> None:
    built = good_run()
    index = operation_index(built, lambda o: o.outcome is Outcome.OK, after=50)
    wanted = built.operations[index].id
    built.payloads[1] = [
        payload[:-1] + bytes([payload[-1] ^ 1]) if wanted.to_bytes(8, "little") in payload else payload
        for payload in built.payloads[1]
    ]
    built.write(tmp_path)
    browser.open(write_report(tmp_path))
    browser.value(f"pickOperation(run.operations.id.indexOf({wanted}))")
    told = browser.value("document.querySelector('#details table').innerText")
    assert [("another frame" in line) for line in told.splitlines() if line.startswith("member ")] == [
        False,
        True,
        False,
    ]


def test_an_operation_that_was_lost_is_shown_as_not_in_the_log(browser: Browser, tmp_path: Path) -> None:
    """The frame at the position that its client heard is another operation's by then."""
    built = good_run()
    index = operation_index(built, lambda o: o.outcome is Outcome.OK, after=50)
    lost = built.operations[index].id
    for member_id, payloads in enumerate(built.payloads):
        others = [payload for payload in payloads if lost.to_bytes(8, "little") not in payload]
        assert len(others) == len(payloads) - 1
        built.payloads[member_id] = others
    built.write(tmp_path)
    browser.open(write_report(tmp_path))
    browser.value(f"pickOperation(run.operations.id.indexOf({lost}))")
    details = browser.value("document.querySelector('#details').innerText")
    assert re.search(r"not in the log; at [0-9,]+ (is operation id=[0-9]+|no frame ends)", details), details
    present = built.operations[index + 20]
    browser.value(f"pickOperation(run.operations.id.indexOf({present.id}))")
    assert "not in the log" not in browser.value("document.querySelector('#details').innerText")


def test_an_address_opens_the_operation_and_the_broken_promise_that_it_names(browser: Browser, tmp_path: Path) -> None:
    lost = lost_operation(tmp_path)
    page = write_report(tmp_path)
    browser.complaints.clear()
    browser.open(page)
    (mark,) = browser.value("timeLine.marks.filter(mark => mark.what === 'acknowledged operations are not lost')")
    assert (mark["style"], mark["operation"]) == ("broken", lost)
    browser.value(f"location.hash = '#op-{lost}'")
    browser.settle()
    assert browser.value("run.operations.id[timeLine.selected]") == lost
    browser.value("clear()")
    browser.value("document.querySelector('.answer a').click()")
    browser.settle()
    assert browser.value("document.querySelector('#details h3').textContent").startswith("broken at ")
    begin, end = shown_window(browser)
    assert begin <= mark["begin"] <= end
    browser.value("document.querySelectorAll('.mark.fault')[0].click()")
    assert browser.value("document.querySelector('#details h3').textContent") == "kill member-0"
    kill = browser.value("timeLine.marks[0].begin")
    assert browser.value("location.hash") == f"#t={kill / 1e9:.6f}"


def test_a_fresh_browser_follows_the_address_of_an_operation_a_moment_and_a_member(
    browser: Browser, tmp_path: Path
) -> None:
    built = good_run()
    for trace in built.traces:
        trace.append(
            json.dumps({"ts": 5000, "event": "send", "message": "AppendPosition", "log_position": 96, "to": 0})
        )
    built.write(tmp_path)
    page = write_report(tmp_path).as_uri()

    def opened_at(place: str) -> None:
        browser.visit("about:blank")
        browser.visit(f"{page}#{place}")

    opened_at("op-150")
    assert browser.value("run.operations.id[timeLine.selected]") == 150
    opened_at("t=0.0002")
    begin, end = shown_window(browser)
    assert 0 < begin < 200_000 < end < browser.value("run.length")
    opened_at("member-1")
    senders = "[...new Set([...document.querySelectorAll('#messages tbody td:nth-child(2)')].map(e => e.textContent))]"
    assert browser.value(senders) == ["member 1"]
    assert browser.complaints == []


def test_operations_are_saved_as_csv_with_every_quote_in_place(opened: Browser) -> None:
    opened.value("run.operations.value[0] = 'a \"b\", c'")
    rows = list(csv.DictReader(io.StringIO(opened.value("operationsAsCsv()"))))
    assert [int(row["id"]) for row in rows] == opened.value("run.operations.id")
    assert rows[0]["value"] == 'a "b", c'


def test_positions_and_fields_of_messages_are_searched(browser: Browser, tmp_path: Path) -> None:
    built = good_run()
    sent = {"ts": 5000, "event": "send", "message": "CommitPosition", "log_position": 10528, "to": 1}
    built.traces[0].append(json.dumps(sent))
    built.write(tmp_path)
    browser.open(write_report(tmp_path))

    def found(words: str) -> list[str]:
        browser.value(f"part('search').value = {json.dumps(words)}; showFound()")
        texts: list[str] = browser.value("[...document.querySelectorAll('#found li')].map(each => each.textContent)")
        return texts

    position = next(o.position for o in built.operations if o.position is not None and o.position > 1000)
    for words in (str(position), f"{position:,}"):
        (operation,) = [text for text in found(words) if "operation" in text]
        assert f"operation {next(o.id for o in built.operations if o.position == position)}:" in operation
    (message,) = [text for text in found("log_position=10528") if "CommitPosition" in text]
    assert "member 0 (send) log_position=10528" in message


def test_the_tick_of_a_name_stays_at_its_moment_at_the_right_edge(browser: Browser, tmp_path: Path) -> None:
    built = good_run()
    built.faults = [
        FaultRecord("kill", "member-0, member-1, member-2", 401_000, 402_000, None, None, Proof(True, "gone"))
    ]
    built.write(tmp_path)
    browser.open(write_report(tmp_path))
    browser.settle()
    tick, edge, name = browser.value(
        "[document.querySelector('.mark b').getBoundingClientRect().left,"
        " part('time-line').getBoundingClientRect().left + LEFT"
        " + (timeLine.width - 24 - LEFT) * timeLine.marks[0].begin / run.length,"
        " document.querySelector('.mark').getBoundingClientRect().left]"
    )
    assert abs(tick - edge) < 2
    assert name < tick - 50


def test_a_broken_promise_is_marked_out_when_its_link_is_followed(browser: Browser, tmp_path: Path) -> None:
    lost_operation(tmp_path)
    browser.open(write_report(tmp_path))
    noted = "document.querySelectorAll('.mark.broken[aria-current=true]').length"
    assert browser.value(noted) == 0
    browser.value("document.querySelector('.answer a').click()")
    browser.settle()
    assert browser.value(noted) == 1
    browser.key("Escape")
    assert browser.value(noted) == 0


def test_what_is_searched_for_is_found_and_shown(opened: Browser) -> None:
    opened.key("/")
    for letter in "kill":
        opened.key(letter)
    found = opened.value("[...document.querySelectorAll('#found button')].map(each => each.textContent)")
    assert len(found) == 1
    assert "kill member-0" in found[0]
    opened.value("document.querySelector('#found button').click()")
    opened.settle()
    begin, end = shown_window(opened)
    assert 300_000 < begin < 390_000 < 396_000 <= end
    fault = "[...document.querySelectorAll('.mark')].find(each => each.textContent.startsWith('kill'))"
    opened.value(f"{fault}.click()")
    assert "gone: container 5" in opened.value("document.getElementById('details').textContent")


def test_names_of_faults_do_not_cover_each_other_and_evidence_has_room(opened: Browser) -> None:
    boxes = opened.value(
        "[...document.querySelectorAll('.mark:not([hidden])')].map(e => e.getBoundingClientRect().toJSON())"
    )
    assert len(boxes) == 3
    for i, one in enumerate(boxes):
        for other in boxes[i + 1 :]:
            apart = one["right"] <= other["left"] or other["right"] <= one["left"]
            assert apart or one["bottom"] <= other["top"] or other["bottom"] <= one["top"]
    section = box(opened, "document.querySelector('.faults')")
    for evidence in opened.value(
        "[...document.querySelectorAll('.evidence')].map(e => e.getBoundingClientRect().width)"
    ):
        assert evidence > 0.9 * section["width"]
    assert opened.value("document.documentElement.scrollWidth <= innerWidth")


def test_paper_is_light_and_has_everything_open(browser: Browser, tmp_path: Path) -> None:
    good_run().write(tmp_path)
    browser.complaints.clear()
    browser.open(write_report(tmp_path), dark=True)
    browser.value(
        "window.onPaper = []; addEventListener('beforeprint', () => onPaper.push(timeLine.width,"
        "timeLine.colour('card'), document.querySelectorAll('details:not([open])').length))"
    )
    dark = browser.value("timeLine.colour('card')")
    pdf = base64.b64decode(browser.call("Page.printToPDF", printBackground=True)["data"])
    assert pdf.startswith(b"%PDF")
    width, card, closed = browser.value("onPaper")
    assert (card, closed) == ("#fff", 0)
    assert width < 720
    browser.settle()
    assert browser.value("timeLine.colour('card')") == dark != card
    assert browser.complaints == []


def with_many_operations(page: Path) -> None:
    """The page with an even stream of so many answered operations in the place of its own."""
    before, begin, rest = page.read_text(encoding="utf-8").partition('<script type="application/json" id="data">')
    text, end, after = rest.partition("</script>")
    scene = json.loads(text)
    length = scene["length"] = MANY * 50_000
    starts = [i * 50_000 for i in range(MANY)]
    scene["operations"] |= {
        "id": list(range(MANY)),
        "begin": starts,
        "end": [start + 100_000 + start * 7919 % 5_000_000 for start in starts],
    }
    for name in ("slot", "kind", "outcome", "key", "value", "result", "session"):
        scene["operations"][name] = [scene["operations"][name][0]] * MANY
    assert scene["operations"]["outcome"][0] == "ok"
    assert length > scene["operations"]["begin"][-1]
    page.write_text(before + begin + json.dumps(scene) + end + after, encoding="utf-8")


def test_many_points_cost_no_more_than_there_are_places(browser: Browser, tmp_path: Path) -> None:
    """Counted are calls of the canvas: the chart of latencies has places for so many marks, whatever was measured; and
    however often the window changes within a frame, it is drawn once.
    """
    good_run().write(tmp_path)
    page = write_report(tmp_path)
    with_many_operations(page)
    added = browser.call("Page.addScriptToEvaluateOnNewDocument", source=COUNTED)["identifier"]
    browser.complaints.clear()
    browser.open(page)
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added)
    assert browser.value("run.operations.id.length") == MANY
    width, height = browser.value("[timeLine.charts[1].bbox.width, timeLine.charts[1].bbox.height]")
    places = (width / 3 + 1) * (height / 3 + 1)
    browser.value("painted = 0; timeLine.redraw()")
    browser.settle()
    once = browser.value("painted")
    assert 1000 < once < places + 3000
    browser.value("painted = 0; for (let i = 0; i < 50; i++) timeLine.pan(0.0001)")
    browser.settle()
    assert 1000 < browser.value("painted") < 1.2 * once
    assert browser.complaints == []


def test_charts_of_what_the_run_has_nothing_of_are_left_out(browser: Browser, tmp_path: Path) -> None:
    built = good_run()
    built.operations = []
    built.write(tmp_path)
    browser.complaints.clear()
    browser.open(write_report(tmp_path))
    assert shown_charts(browser)[:3] == [True, False, False]
    assert browser.complaints == []


def test_a_latency_axis_has_marks_only_where_the_window_has_an_answer(browser: Browser, tmp_path: Path) -> None:
    built = good_run()
    built.operations = [operation for operation in built.operations if not 200_000 < operation.invoke_ns < 260_000]
    built.write(tmp_path)
    browser.open(write_report(tmp_path))
    marks = "timeLine.charts[1].axes[1]._values.length"
    assert shown_charts(browser)[:3] == [True, True, True]
    assert browser.value(marks) > 0
    browser.value("timeLine.show(225_000, 235_000)")
    browser.settle()
    assert browser.value(marks) == 0
    browser.key("0")
    assert browser.value(marks) > 0


def test_a_moment_has_the_wall_clock_where_the_run_has_one(browser: Browser, tmp_path: Path) -> None:
    noon_ms = 1_767_268_800_000
    built = good_run()
    built.traces[0].append(
        json.dumps({"ts": 300_000, "epoch_ms": noon_ms, "event": "send", "message": "Vote", "to": 1})
    )
    built.faults = [FaultRecord("kill", "member-0", 300_000, 301_000, None, None, Proof(True, "gone"))]
    for created, expected in (
        ("2026-01-01T12:00:00+00:00", "began 0.000 s, 12:00:00.000 UTC; "),
        ("", "began 0.000 s; "),
    ):
        built.manifest = replace(built.manifest, created=created)
        built.write(tmp_path / (created or "simulated"))
        browser.open(write_report(tmp_path / (created or "simulated")))
        browser.value("document.querySelector('.mark.fault').click()")
        assert browser.value("document.querySelector('#details p').textContent").startswith(expected)
        assert ("UTC" in browser.value("document.getElementById('window').textContent")) == bool(created)


def shown_charts(browser: Browser) -> list[bool]:
    shown: list[bool] = browser.value("timeLine.charts.map(each => each.root.offsetParent !== null)")
    return shown
