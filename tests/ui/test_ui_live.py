"""The page of a cluster of processes: its figures, and a leader that is killed by its button and comes back."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.browser import Browser
from support.live_clusters import end_without_trace
from support.page_servers import Answer, ask, serving
from upheaval.cli.main import main
from upheaval.records import RunFolder
from upheaval.runtimes.process import ProcessCluster
from upheaval.scenario import load_scenario
from upheaval.ui.server import PageServer
from upheaval.waits import wait_until

LONG_S = 240


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with ProcessCluster.create(tmp_path_factory.mktemp("runs") / "shop") as cluster:
        try:
            cluster.up(timeout_s=LONG_S)
            yield cluster
        finally:
            end_without_trace(cluster)


@pytest.fixture(scope="module")
def server(cluster: ProcessCluster) -> Iterator[PageServer]:
    with serving(PageServer(cluster.folder.parent)) as server:
        yield server


def act(server: PageServer, action: str, **fields: object) -> Answer:
    return ask(server, f"/api/live/shop/{action}", method="POST", body=fields)


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
        ("inject", {"statement": "blackhole member-0 <-> member-1"}, "no proxies in its links"),
        ("heal", {"name": "kill-1"}, "no fault 'kill-1' to heal"),
        ("command", {"word": "explode"}, "unknown admin command 'explode'"),
        ("scenario", {}, "nothing was done to this cluster"),
    ):
        answer = act(server, action, **fields)
        assert (answer.status, reason in answer.json["error"]) == (400, True), (action, fields, answer.text)
    assert list(cluster.run.read_faults()) == []
    assert list(cluster.run.read_controls()) == []


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


def click(browser: Browser, selector: str) -> None:
    browser.value(f"document.querySelector({json.dumps(selector)}).click()")


def test_a_leader_is_killed_by_its_button_healed_and_the_whole_saved_as_a_scenario(
    server: PageServer, cluster: ProcessCluster, tmp_path: Path
) -> None:
    leader = cluster.wait_until_leader(LONG_S)
    with Browser(tmp_path / "profile") as browser:

        def wait_for(expression: str) -> None:
            wait_until(
                lambda: bool(browser.value(expression)),
                timeout_s=LONG_S,
                describe=lambda: f"never {expression}: {browser.value('document.body.innerText')} {browser.complaints}",
            )

        browser.visit(server.address)
        browser.visit(f"http://127.0.0.1:{server.port}/live/shop")
        wait_for(f"document.getElementById('badge').textContent === 'member {leader} leads'")
        button = f"tr[data-member='{leader}'] button[data-word=kill]"
        click(browser, button)
        assert list(cluster.run.read_faults()) == []
        assert browser.value(f"document.querySelector({json.dumps(button)}).textContent") == "really kill?"
        click(browser, button)
        wait_for("document.querySelector('#fault-list li.on')?.textContent.includes('gone: ')")
        wait_for(f"/^member [^{leader}] leads$/.test(document.getElementById('badge').textContent)")
        wait_for(f"document.querySelector('tr[data-member=\"{leader}\"]').dataset.state === 'down'")
        wait_for("document.querySelector('#lines .band') !== null")

        click(browser, ".heal-all")
        wait_for("document.querySelector('#fault-list li:not(.on)')?.textContent.includes('running: ')")
        wait_for("document.querySelectorAll('tr[data-state=down]').length === 0")
        click(browser, "[data-do=save]")
        wait_for("document.getElementById('saved').textContent.startsWith('saved as ')")
        assert browser.complaints == []

    (fault,) = RunFolder(cluster.folder).read_faults()
    assert (fault.what, fault.members, fault.is_proved) == ("kill", (leader,), True)
    (saved,) = cluster.folder.parent.glob("*.scenario")
    statements = load_scenario(str(saved)).text.splitlines()
    assert "inject kill-1 kill leader" in statements
    assert "wait leader other-than kill-1" in statements
    assert statements[-3:] == ["heal kill-1", "wait caught-up kill-1", "wait operations 50"]
