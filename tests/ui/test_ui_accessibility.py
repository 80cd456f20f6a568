"""No page has a barrier that axe-core takes for serious, at the widths of a screen and of a telephone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.axe import undecided, violations
from support.browser import Browser
from support.built_campaigns import seed_line, write_seeds
from support.built_runs import good_run, lost_operation
from support.page_servers import serving
from upheaval.checkers.verdict import Verdict
from upheaval.cli.report import write_report
from upheaval.runtimes.process import ProcessCluster
from upheaval.ui.server import PageServer


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a run that lost an operation, with a fault."""
    run = tmp_path_factory.mktemp("run")
    lost_operation(run)
    return write_report(run)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """Of a good run, one that lost an operation, a campaign of one seed, and a cluster of which nothing runs."""
    runs = tmp_path_factory.mktemp("runs")
    good_run().write(runs / "good")
    lost_operation(runs / "lost")
    write_seeds(runs / "swept", [seed_line(1), seed_line(2, Verdict.INVALID)])
    ProcessCluster.create(runs / "cluster").close()
    with serving(PageServer(runs)) as server:
        yield server


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1400, 400])
def test_nothing_of_the_page_keeps_anybody_out(browser: Browser, report: Path, width: int, dark: bool) -> None:
    browser.complaints.clear()
    browser.call("Network.enable")
    browser.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
    browser.open(report, width=width, dark=dark)
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    browser.value("document.querySelector('.answer a').click()")
    browser.settle()
    assert violations(browser) == []
    assert browser.complaints == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_contrast_of_the_page_can_be_measured(browser: Browser, report: Path, dark: bool) -> None:
    """On a screen: colours are the same at every width."""
    browser.open(report, width=1400, dark=dark)
    assert undecided(browser) == []


PAGES = {"runs": "", "live": "live/cluster", "campaign": "campaigns/swept", "beside": "compare?a=good&b=lost"}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_nothing_of_the_pages_of_a_server_keeps_anybody_out(
    browser: Browser, server: PageServer, page: str, dark: bool
) -> None:
    browser.visit(server.address)
    browser.complaints.clear()
    for width in (1400, 400):
        browser.visit(f"http://127.0.0.1:{server.port}/{PAGES[page]}", width=width, dark=dark)
        assert browser.value("document.documentElement.scrollWidth <= innerWidth"), width
        assert violations(browser) == []
    assert undecided(browser) == []
    assert browser.complaints == []


def test_a_barrier_is_seen(browser: Browser, report: Path) -> None:
    browser.open(report)
    browser.value("document.getElementById('search').removeAttribute('aria-label')")
    browser.value("document.getElementById('search').removeAttribute('placeholder')")
    browser.value("document.querySelector('.where').style.color = 'silver'")
    browser.value("document.querySelector('footer').style.background = 'linear-gradient(red, blue)'")
    assert {rule["id"] for rule in violations(browser)} == {"label", "color-contrast"}
    assert [rule["target"] for rule in undecided(browser)] == ["footer"]
