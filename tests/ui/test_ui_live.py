"""The page of a cluster of processes: its figures, and a leader that is killed by its button and comes back."""

import json
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.browser import Browser
from support.live_clusters import end_without_trace
from support.live_page import PIXELS, click, cut_and_heal, end_cluster, kill_and_heal, open_page, start_load
from support.page_servers import LONG_S, Answer, ask, serving
from upheaval.checkers.promises import Promise
from upheaval.cli.main import main
from upheaval.errors import EnvironmentFault
from upheaval.runtimes.cluster_file import has_cluster
from upheaval.runtimes.process import ProcessCluster
from upheaval.scenario import load_scenario
from upheaval.ui.programs import Programs
from upheaval.ui.server import PageServer
from upheaval.waits import wait_until

ENOUGH = 150
"""Operations; a run of fewer than 100 acknowledged ones is unknown."""
WORKLOAD = {"users": 4, "user": "upheaval.load.users:WorkbenchUser", "rate": 40.0, "duration_s": None}
HEADS = "[...document.querySelectorAll('.beside thead th')].slice(1, 3).map(head => head.textContent)"
OF_TIME = {
    Promise.BOUNDS_KEPT,
    Promise.CLIENTS_IN_TIME,
    Promise.FAULTS_IN_TIME,
    Promise.LEADER_FOUND,
    Promise.MEMBERS_JOIN,
    Promise.PROGRESS,
    Promise.TIME_KEPT,
}
"""What a machine that is busy with other things may make members break."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    runs = tmp_path_factory.mktemp("runs")
    # Its links have no proxies; nothing of it runs.
    ProcessCluster.create(runs / "bare").close()
    with serving(PageServer(runs)) as server:
        yield server


@pytest.fixture(scope="module")
def cluster(server: PageServer) -> Iterator[ProcessCluster]:
    """Another handle of the cluster that the page starts."""
    assert start(server, name="shop", service="workbench").json == {"name": "shop"}
    with ProcessCluster.open(server.folder / "shop") as cluster:
        yield cluster
        end_without_trace(cluster)


def act(server: PageServer, action: str, fields: Mapping[str, object] | None = None, run: str = "shop") -> Answer:
    return ask(server, f"/api/live/{run}/{action}", method="POST", body=fields or {})


def start(server: PageServer, **fields: object) -> Answer:
    return ask(server, "/api/clusters", method="POST", body=fields)


def test_what_makes_no_sense_is_refused_with_a_reason_and_nothing_is_done(
    server: PageServer, cluster: ProcessCluster
) -> None:
    for action, fields, reason in (
        ("inject", {"statement": "explode leader"}, "unknown fault 'explode'"),
        ("inject", {"statement": "kill member-7"}, "unknown member-7"),
        ("inject", {"statement": "kill leader\nshutdown"}, "expected one statement"),
        ("inject", {"statement": "kill leader; rm -rf /"}, "unknown target 'leader;'"),
        ("inject", {"statement": 7}, "statement: expected a text"),
        ("inject", {"statement": "pause leader", "for_s": -1}, "heals after more than 0"),
        ("inject", {"statement": "kill leader", "for_s": "long"}, "for_s: expected seconds"),
        ("heal", {"name": "kill-1"}, "no fault 'kill-1' to heal"),
        ("command", {"word": "explode"}, "unknown admin command 'explode'"),
        ("scenario", {}, "nothing was done to this cluster"),
        ("scenario", {"runs": "yes"}, "runs: expected true or false"),
        ("load-start", {"users": 0}, "expected 1 to"),
        ("load-start", {"users": 10_000}, "sessions: expected 1 to"),
        ("load-start", {"users": "many"}, "users: expected a whole number"),
        ("load-start", {"rate": -1}, "rate: expected operations a second"),
        ("load-start", {"rate": "fast"}, "rate: expected a number"),
        ("load-rate", {"rate": 5}, "no load is running"),
        ("load-stop", {}, "no load is running"),
    ):
        answer = act(server, action, fields)
        assert (answer.status, reason in answer.json["error"]) == (400, True), (action, fields, answer.text)
    for wrong, reason in (
        ({"name": "shop"}, "shop exists: choose another name"),
        ({"name": "../shop"}, "name: expected 1 to 64"),
        ({}, "name: expected a text"),
        ({"members": 12}, "members"),
        ({"system": "zookeeper"}, "zookeeper"),
        ({"runtime": "simulated"}, "runtime: unknown 'simulated'"),
        ({"service": "sqlite"}, "sqlite"),
        ({"links": 1}, "links: expected true or false"),
    ):
        answer = start(server, **({"name": "other"} | wrong if wrong else {}))
        assert (answer.status, reason in answer.json["error"]) == (400, True), (wrong, answer.text)
    assert list(cluster.run.read_faults()) == []
    assert list(cluster.run.read_controls()) == []
    assert list(cluster.run.read_history()) == []
    assert not (server.folder / "other").exists()
    cut = act(server, "inject", {"statement": "blackhole member-0 <-> member-1"}, "bare")
    assert (cut.status, "no proxies in its links" in cut.json["error"]) == (400, True)
    shutil.rmtree(server.folder / "bare")
    gone = ask(server, "/api/live/bare/state")
    assert (gone.status, "no run 'bare'" in gone.json["error"]) == (400, True)


def test_the_members_are_those_of_top(
    server: PageServer, cluster: ProcessCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    def both() -> list[list[dict[str, object]]]:
        shown = ask(server, "/api/live/shop/state").json["members"]
        main(["top", "--dir", str(cluster.folder), "--count", "1", "--json"])
        rows = [shown, json.loads(capsys.readouterr().out)["members"]]
        return [[{**row, "committed_bytes_per_s": None} for row in each] for each in rows]

    def are_equal() -> bool:
        shown, printed = both()
        return shown == printed

    # No client asks the cluster for anything, so its positions are the same at two looks in a row.
    wait_until(are_equal, timeout_s=LONG_S, describe=lambda: f"the page and top differ: {both()}")


def test_a_cluster_is_loaded_broken_healed_saved_as_a_scenario_and_ended_by_buttons(
    server: PageServer, cluster: ProcessCluster, tmp_path: Path
) -> None:
    with Browser(tmp_path / "profile") as browser:
        wait_for = open_page(browser, server)
        start_load(browser, wait_for, server)
        wait_for(f"({PIXELS})(timeLine.charts[1], 'p99') > 0")
        wait_for(f"({PIXELS})(timeLine.charts[2], 'area') > 0")

        leader = cluster.wait_until_leader(LONG_S)
        kill_and_heal(browser, wait_for, cluster, leader)
        cut_and_heal(browser, wait_for)
        wait_until(lambda: count(cluster) >= ENOUGH, timeout_s=LONG_S, describe=lambda: f"{count(cluster)} operations")
        click(browser, "[data-do=load-stop]")
        wait_for("document.getElementById('load-state').textContent.startsWith('stopped: ')")

        click(browser, "[data-do=rerun]")
        wait_for("document.getElementById('beside') !== null")
        simulated, beside = (browser.value(f"document.getElementById('{name}').href") for name in ("rerun", "beside"))
        end_cluster(browser, wait_for)
        browser.visit(simulated)
        assert browser.value("timeLine.marks.map(mark => mark.what)[0]").startswith("kill member-")
        browser.visit(beside)
        assert browser.value("document.querySelectorAll('#lines rect.band').length") > 2
        assert browser.value(HEADS) == ["shop", simulated.rpartition("/")[2]]
        assert browser.complaints == []

    kill, cut = cluster.run.read_faults()
    assert (kill.what, kill.members, kill.is_proved) == ("kill", (leader,), True)
    assert cut.statement == "blackhole member-0 -> member-1"
    assert {link[:4] for link in cut.links} == {"0->1"}
    assert cut.inject_proof is not None
    (saved,) = server.folder.glob("*.scenario")
    statements = load_scenario(str(saved)).text.splitlines()
    assert "inject kill-1 kill leader" in statements
    assert "wait leader other-than kill-1" in statements
    assert "heal blackhole-2" in statements
    assert cluster.run.read_manifest().workload["locust"] == WORKLOAD
    promises = ask(server, "/api/runs/shop/verdict").json["promises"]
    broken = {promise["promise"]: promise["detail"] for promise in promises if promise["verdict"] == "invalid"}
    assert broken.keys() <= OF_TIME, broken


def test_a_fault_of_a_command_is_healed_by_its_button(server: PageServer, tmp_path: Path) -> None:
    assert start(server, name="hand", members=1).status == 200
    with ProcessCluster.open(server.folder / "hand") as cluster, Browser(tmp_path / "profile") as browser:
        wait_for = open_page(browser, server, "hand")
        assert main(["kill", "--dir", str(cluster.folder), "0"]) == 0
        wait_for("document.querySelector('#fault-list li.on button')?.textContent === 'heal'")
        click(browser, "#fault-list li.on button")
        wait_for("document.querySelector('#fault-list li:not(.on)')?.textContent.includes('running: ')")
        wait_for("document.getElementById('done').textContent.endsWith(' heal kill-1: done')")
        wait_for("document.getElementById('badge').textContent === 'member 0 leads'")
        (killed,) = cluster.run.read_faults()
        assert (killed.name, killed.is_proved) == ("", True)
        assert act(server, "heal", {"name": "kill-1"}, "hand").status == 400
        assert act(server, "end", run="hand").status == 200


def count(cluster: ProcessCluster) -> int:
    return len(list(cluster.run.read_history()))


def test_what_the_server_started_ends_with_it(tmp_path: Path) -> None:
    with serving(PageServer(tmp_path)) as server:
        assert start(server, name="lone", members=1).status == 200
        assert act(server, "load-start", {"users": 1, "rate": 5}, "lone").json["is_on"]
        lone = ProcessCluster.open(tmp_path / "lone")
        assert lone.is_running()
    end_without_trace(lone)
    assert lone.run.read_manifest().sealed is not None


def test_a_cluster_that_starts_has_no_page_until_it_has_started(
    server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_start = threading.Event()
    up = ProcessCluster.up

    def up_later(cluster: ProcessCluster, timeout_s: float) -> int:
        leader = up(cluster, timeout_s)
        assert may_start.wait(LONG_S)
        return leader

    monkeypatch.setattr(ProcessCluster, "up", up_later)
    starting = threading.Thread(target=start, args=(server,), kwargs={"name": "slow", "members": 1})
    starting.start()
    try:
        path = server.folder / "slow"
        wait_until(
            lambda: has_cluster(path) and ProcessCluster.open(path).leader() is not None,
            timeout_s=LONG_S,
            describe=lambda: "it does not start",
        )
        early = act(server, "load-start", {"users": 1, "rate": 5}, "slow")
        again = start(server, name="slow", members=1)
    finally:
        may_start.set()
        starting.join(LONG_S)
    assert (early.status, "slow is starting: wait until it has a leader" in early.text) == (400, True), early
    assert (again.status, "slow exists" in again.text) == (400, True), again
    assert act(server, "load-start", {"users": 1, "rate": 5}, "slow").json["is_on"]
    assert act(server, "end", run="slow").status == 200
    assert not ProcessCluster.open(path).is_running()


def test_a_command_of_the_page_ends_with_the_server() -> None:
    programs = Programs()
    ended: list[str] = []

    def run() -> None:
        try:
            programs.run(["campaign", "--seeds", "1..1000000"], limit_s=LONG_S)
        except EnvironmentFault as fault:
            ended.append(str(fault))

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: programs.count == 1, timeout_s=LONG_S, describe=lambda: "the campaign never started")
    programs.end()
    thread.join(LONG_S)
    assert ended == ["upheaval campaign was ended with the server"]
    with pytest.raises(EnvironmentFault, match="it starts nothing more"):
        programs.run(["version"], limit_s=LONG_S)
