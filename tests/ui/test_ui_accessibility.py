"""The page of a run has no barrier that axe-core takes for serious, at the widths of a screen and of a telephone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.axe import undecided, violations
from support.browser import Browser
from support.built_runs import lost_operation
from upheaval.cli.report import write_report


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
