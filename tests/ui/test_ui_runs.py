"""The list of runs of `upheaval ui`, the page of each, and its figures, which are those of the commands."""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.browser import Browser
from support.built_campaigns import seed_line, write_seeds
from support.built_runs import good_run, lost_operation
from support.page_servers import ask, serving
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.cli.report import write_report
from upheaval.records import RunFolder
from upheaval.ui.server import PageServer
from upheaval.waits import wait_until

EVIL = "<script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    good_run().write(folder / "good")
    lost = RunFolder(folder / "of-a-campaign" / "lost")
    lost_operation(lost.path)
    lost.write_manifest(replace(lost.read_manifest(), planted=EVIL))
    torn = folder / "torn"
    torn.mkdir()
    (torn / "manifest.json").write_text("{")
    return folder


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[PageServer]:
    with serving(PageServer(runs)) as server:
        yield server


def test_every_run_is_listed_and_one_that_cannot_be_read_says_why(server: PageServer) -> None:
    rows = {row["name"]: row for row in ask(server, "/api/runs").json}
    assert rows.keys() == {"good", "of-a-campaign/lost", "torn"}
    assert "manifest.json" in rows["torn"]["error"]
    assert rows["of-a-campaign/lost"]["planted"] == EVIL


def test_figures_and_verdict_are_those_of_the_commands(
    server: PageServer, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("good", "of-a-campaign/lost"):
        run = str(runs / name)
        main(["verify", run, "--json"])
        assert ask(server, f"/api/runs/{name}/verdict").json == json.loads(capsys.readouterr().out)
        main(["measure", run, "--json"])
        assert {run: ask(server, f"/api/runs/{name}/figures").json} == json.loads(capsys.readouterr().out)


def test_the_page_of_a_run_is_the_one_that_report_writes(server: PageServer, runs: Path, tmp_path: Path) -> None:
    expected = write_report(runs / "good", tmp_path / "page.html").read_text()
    assert ask(server, "/runs/good").text == expected
    assert "<h1>good</h1>" in expected


def test_two_runs_beside_each_other_differ_where_their_figures_do(server: PageServer) -> None:
    fields = ask(server, "/api/compare?a=good&b=of-a-campaign/lost").json
    rows = {row["what"]: (row["a"], row["b"], row["difference"]) for row in fields["rows"]}
    assert rows["verdict"] == ("valid", "invalid", "differs")
    assert rows["not valid"][0] == "-"
    assert rows["not valid"][1] == rows["not valid"][2] != ""
    same = ask(server, "/api/compare?a=good&b=good").json["rows"]
    assert {row["difference"] for row in same} == {""}
    assert [(row["a"], row["b"]) for row in same] == [(row["a"], row["a"]) for row in same]
    figures = ask(server, "/api/runs/good/figures").json
    assert rows["operations, ok"][0] == f"{figures['counts']['ok']:,}"
    page = ask(server, "/compare?a=good&b=of-a-campaign/lost").text
    assert page.count("<rect ") >= len(figures["members"])
    for wrong in ("/compare", "/compare?a=good", "/compare?a=good&b=none", "/compare?a=torn&b=good"):
        assert ask(server, wrong).status == 400, wrong


def test_a_run_that_is_removed_while_its_page_is_open_is_one_line(server: PageServer, runs: Path) -> None:
    good_run().write(runs / "short-lived")
    assert ask(server, "/runs/short-lived").status == 200
    shutil.rmtree(runs / "short-lived")
    for path in ("/runs/short-lived", "/api/runs/short-lived/figures", "/live/short-lived"):
        answer = ask(server, path)
        assert (answer.status, "no run 'short-lived'" in answer.json["error"]) == (400, True)


def test_a_folder_whose_name_is_not_utf_8_is_served_like_any_other(server: PageServer, runs: Path) -> None:
    folder = runs / os.fsdecode(b"caf\xe9")
    good_run().write(folder)
    address = "/runs/caf%5Cudce9"
    assert f'href="{address}"' in ask(server, "/").text
    assert r"caf\udce9" in {row["name"] for row in ask(server, "/api/runs").json}
    assert (ask(server, address).status, ask(server, f"/api{address}/verdict").json["verdict"]) == (200, "valid")
    torn = runs / os.fsdecode(b"torn-\xe9")
    torn.mkdir()
    (torn / "manifest.json").write_text("{")
    assert ask(server, "/").status == ask(server, "/api/runs").status == 200
    assert ask(server, "/runs/torn-%5Cudce9").status == 400
    shutil.rmtree(folder)
    shutil.rmtree(torn)


def test_what_is_not_in_the_folder_is_not_served(server: PageServer) -> None:
    for name in ("none", "../good", "%2e%2e/good", "good/../../etc", EVIL):
        answer = ask(server, f"/api/runs/{name.replace('<', '%3C').replace('>', '%3E')}/verdict")
        assert answer.status in (400, 404)
    assert ask(server, "/static/..%2fapp.py").status == 404


def test_a_browser_judges_what_it_shows_filters_and_runs_no_script_of_a_run(server: PageServer, tmp_path: Path) -> None:
    verdicts = "[...document.querySelectorAll('tr[data-run]')].map(row => [row.dataset.run, row.cells[1].textContent])"
    expected = {"good": "valid", "of-a-campaign/lost": "invalid", "torn": "unreadable"}
    narrow = "filter => { filter.value = 'LOST'; filter.dispatchEvent(new Event('input')) }"
    links = "[...document.querySelectorAll('tr[data-run]:not([hidden]) a')].map(link => link.getAttribute('href'))"
    with Browser(tmp_path / "profile") as browser:
        browser.visit(server.address)
        wait_until(
            lambda: dict(browser.value(verdicts)) == expected,
            timeout_s=120,
            describe=lambda: f"{browser.value(verdicts)}, {browser.complaints}",
        )
        assert "owned" not in browser.value("document.title")
        browser.value(f"({narrow})(document.getElementById('filter'))")
        assert browser.value("document.getElementById('count').textContent") == "1 of 3"
        assert browser.value(links) == ["/runs/of-a-campaign/lost"]
        assert browser.complaints == []


def test_a_campaign_is_summed_up_while_it_goes_on_and_when_another_one_replaces_it(
    server: PageServer, runs: Path
) -> None:
    folder = runs / "swept"
    lines = [seed_line(0), seed_line(1), seed_line(2), seed_line(3, Verdict.INVALID)]
    lines[3] |= {"folder": str(runs / "good"), "findings": [f"invalid, {EVIL}"]}
    lines[0]["inconclusive"] = True
    lines[1] |= {"seen_variations": {"small-mtu": {"holds": True}, "checksums": {"holds": False}}}
    write_seeds(folder, lines[:2])
    first = ask(server, "/api/campaigns/swept").json
    assert (first["seeds"], first["verdicts"], first["inconclusive"]) == (2, {"valid": 2}, 1)
    assert (first["is_over"], first["failed"], first["variations"]) == (False, [], {"small-mtu": 1})

    with (folder / "seeds.jsonl").open("a") as stream:
        stream.writelines(json.dumps(each) + "\n" for each in lines[2:])
    (folder / "summary.json").write_text("{}")
    both = ask(server, "/api/campaigns/swept").json
    assert (both["seeds"], both["verdicts"], both["is_over"]) == (4, {"valid": 3, "invalid": 1}, True)
    assert both["failed"] == [{"seed": 3, "verdict": "invalid", "findings": [f"invalid, {EVIL}"], "run": "good"}]
    assert both["faults"]["kill-leader"] == {"planned": 16, "proved": 12, "unseen": 4, "left_out": 0}
    assert (both["operations"], both["moves"]) == (2400, 1)
    assert "CANVASS>NOMINATE" not in both["untaken_moves"] != []
    assert both["goals"] == 1
    assert "leader-silent" not in both["unreached_goals"] != []

    write_seeds(folder, lines[:1])
    assert ask(server, "/api/campaigns/swept").json["seeds"] == 1
    assert 'href="/campaigns/swept"' in ask(server, "/").text
    assert ask(server, "/campaigns/swept").status == 200
    (folder / "seeds.jsonl").write_text('{"seed": "one"}\n')
    for wrong in ("swept", "swept", "good", "none"):
        assert ask(server, f"/api/campaigns/{wrong}").status == 400, wrong
