"""The runs of a lake in the list of `upheaval ui`: what the lake has of each, and its folder while it is there."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from html import unescape
from pathlib import Path

import pytest

from support.built_runs import good_run, lost_operation
from support.page_servers import ask, serving
from upheaval.checkers.judge import verify_run
from upheaval.cli.main import main
from upheaval.cli.report import write_report
from upheaval.records import RunFolder
from upheaval.report import duration, measure_run
from upheaval.ui.server import PageServer
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.lake_place import LakePlace

EVIL = "<script>document.title='owned'</script>"


@dataclass(frozen=True)
class Served:
    """A lake of a good run and of one that lost an operation, whose folder is gone."""

    server: PageServer
    good: Path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("runs")
    built = good_run()
    built.manifest = replace(built.manifest, run_id="good", created="2026-01-02T03:04:05+00:00", seed=7)
    built.write(folder / "good")
    lost_operation(folder / "lost")
    lost = RunFolder(folder / "lost")
    manifest = replace(lost.read_manifest(), run_id="lost", created="2026-01-01T00:00:00+00:00", planted=EVIL)
    lost.write_manifest(replace(manifest, system="aeron:1.51.0"))
    lake = str(folder / "lake")
    ingest(None, [folder / "good", folder / "lost"], lake)
    assert main(["verify", "--lake", lake, "--json"]) == 1
    place = LakePlace(lake, runs_max=2)
    assert place.path("lost") == folder / "lost"
    newest = LakePlace(lake, runs_max=1)
    assert [row.name for row in newest.rows()] == ["good"]
    assert newest.title == f"{lake} (the newest 1 of 2 runs)"
    shutil.rmtree(folder / "lost")
    with serving(PageServer(place, is_read_only=True)) as server:
        yield Served(server, folder / "good")


def test_runs_are_listed_newest_first_with_what_the_lake_knows(served: Served) -> None:
    good, lost = ask(served.server, "/api/runs").json
    assert (good["name"], good["seed"], good["verdict"]) == ("good", 7, verify_run(served.good).verdict.text)
    assert good["length_ns"] == measure_run(RunFolder(served.good)).length_ns
    assert (lost["name"], lost["verdict"], lost["planted"]) == ("lost", "invalid", EVIL)
    assert (lost["system"], lost["version"]) == ("aeron", "1.51.0")
    assert "acknowledged operations are not lost" in lost["broken"]
    assert good["written_ns"] == int(datetime.fromisoformat(good["created"]).timestamp() * 1e9)
    page = ask(served.server, "/").text
    assert "the newest" not in page
    assert page.index('data-run="good"') < page.index('data-run="lost"')
    assert f'<td class="n">{duration(good["length_ns"])}</td>' in page
    assert EVIL in unescape(page)
    assert EVIL not in page
    assert "data-unjudged" not in page
    assert 'id="new-cluster"' not in page


def test_the_page_of_a_run_is_that_of_its_folder_while_it_is_there(served: Served, tmp_path: Path) -> None:
    assert ask(served.server, "/runs/good").text == write_report(served.good, tmp_path / "page.html").read_text()
    assert ask(served.server, "/api/runs/good/figures").status == 200


def test_of_a_run_without_its_folder_the_page_has_verdict_and_faults(served: Served) -> None:
    verdict = ask(served.server, "/api/runs/lost/verdict").json
    page = ask(served.server, "/runs/lost").text
    assert verdict["verdict"] == "invalid"
    for promise in verdict["promises"]:
        assert f"<td>{promise['sentence']}</td>" in unescape(page)
        assert promise["detail"] in unescape(page)
    assert "is gone. This page shows what the lake knows" in page
    assert "kill member-0" in page
    assert EVIL not in page
    for path in ("/api/runs/lost/figures", "/compare?a=good&b=lost", "/live/lost"):
        answer = ask(served.server, path)
        assert (answer.status, "is not there" in answer.json["error"]) == (400, True)
    answer = ask(served.server, "/runs/none")
    assert (answer.status, "no run 'none'" in answer.json["error"]) == (400, True)


def test_a_run_without_a_time_has_that_of_its_ingest_and_lengths_follow_the_lake(tmp_path: Path) -> None:
    """Of a run that is read again, and of one that is new beside it."""
    lake, folders = str(tmp_path / "lake"), {name: tmp_path / name for name in ("first", "second")}

    def write(name: str, count: int) -> None:
        built = good_run(count)
        built.manifest = replace(built.manifest, run_id=name, created="")
        built.write(folders[name])

    write("first", 40)
    ingest(None, [folders["first"]], lake)
    place = LakePlace(lake)
    (row,) = place.rows()
    assert row.created == ""
    assert row.written_ns == int(datetime.fromisoformat(row.ingested).timestamp() * 1e9)
    with serving(PageServer(place, is_read_only=True)) as server:
        assert f'<td class="n">ingested {row.ingested[:16].replace("T", " ")}</td>' in ask(server, "/").text
    shutil.rmtree(folders["first"])
    write("first", 80)
    write("second", 60)
    ingest(None, [*folders.values()], lake)
    lengths = {name: measure_run(RunFolder(folder)).length_ns for name, folder in folders.items()}
    assert len({*lengths.values(), row.length_ns}) == 3
    assert {row.name: row.length_ns for row in place.rows()} == lengths


def test_a_folder_and_a_lake_or_what_is_no_lake_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, reason in (
        (["--dir", tmp_path, "--lake", tmp_path], "and not both"),
        (["--lake", tmp_path], "is not a lake"),
    ):
        assert main(["ui", *map(str, arguments)]) == 2
        err = capsys.readouterr().err
        assert (len(err.splitlines()), reason in err) == (1, True), err
