"""What a reader does on the page of a running cluster, by its buttons in a browser."""

import json
from collections.abc import Callable

from support.browser import Browser
from support.page_servers import LONG_S, ask
from upheaval.runtimes.live import AnyCluster
from upheaval.ui.server import PageServer
from upheaval.waits import wait_until

PIXELS = """(chart, name) => {
  const colour = parseInt(timeLine.colour(name).slice(1), 16);
  const { width, height } = chart.ctx.canvas;
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const copy = canvas.getContext("2d", { willReadFrequently: true });
  copy.drawImage(chart.ctx.canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, width, height);
  let count = 0;
  const near = (i, shift) => Math.abs(data[i] - ((colour >> shift) & 255)) < 16;
  for (let i = 0; i < data.length; i += 4) count += near(i, 16) && near(i + 1, 8) && near(i + 2, 0);
  return count;
}"""
"""How many pixels of a chart have a colour of the page, as far as edges are not smoothed."""
COUNTDOWN = "document.querySelector('#fault-list li.on .countdown')"


def click(browser: Browser, selector: str) -> None:
    browser.value(f"document.querySelector({json.dumps(selector)}).click()")


def open_page(browser: Browser, server: PageServer, name: str = "shop") -> Callable[[str], None]:
    """Open the page of the cluster and wait for a leader. Returns what waits for a condition on the page."""

    def wait_for(expression: str) -> None:
        wait_until(
            lambda: bool(browser.value(expression)),
            timeout_s=LONG_S,
            describe=lambda: f"never {expression}: {browser.value('document.body.innerText')} {browser.complaints}",
        )

    browser.visit(server.address)
    browser.visit(f"http://127.0.0.1:{server.port}/live/{name}")
    wait_for("/^member \\d leads$/.test(document.getElementById('badge').textContent)")
    return wait_for


def end_cluster(browser: Browser, wait_for: Callable[[str], None]) -> None:
    """End the cluster, with a second click to confirm, and wait for the page of its run."""
    click(browser, "[data-do=end]")
    click(browser, "[data-do=end]")
    wait_for("location.pathname === '/runs/shop' && document.readyState === 'complete'")


def start_load(browser: Browser, wait_for: Callable[[str], None], server: PageServer) -> None:
    """Four users, first with one operation a second each, then with forty."""

    def per_second() -> float:
        return float(ask(server, "/api/live/shop/state").json["load"]["per_second"])

    browser.value("document.getElementById('users').value = 4, document.getElementById('rate').value = 1")
    click(browser, "#load-start")
    wait_for("/^4 users, 1 a second each: .* requests/.test(document.getElementById('load-state').textContent)")
    browser.value("document.getElementById('rate').value = 40")
    click(browser, "[data-do=load-rate]")
    wait_for("document.getElementById('load-state').textContent.startsWith('4 users, 40 a second each: ')")
    wait_until(lambda: per_second() > 8, timeout_s=LONG_S, describe=lambda: f"{per_second()} operations a second")


def kill_and_heal(browser: Browser, wait_for: Callable[[str], None], cluster: AnyCluster, leader: int) -> None:
    button = f"tr[data-member='{leader}'] button[data-word=kill]"
    browser.value("document.getElementById('for').value = 3600")
    click(browser, button)
    assert list(cluster.run.read_faults()) == []
    assert browser.value(f"document.querySelector({json.dumps(button)}).textContent") == "really kill?"
    click(browser, button)
    wait_for("document.querySelector('#fault-list li.on')?.textContent.includes('gone: ')")
    # A button that is made again at each second of the countdown would lose the focus.
    browser.value("document.getElementById('for').value = ''")
    browser.value("document.querySelector('#fault-list li.on button').focus()")
    left = browser.value(f"{COUNTDOWN}.textContent")
    wait_for(f"{COUNTDOWN}.textContent !== {json.dumps(left)}")
    assert browser.value("document.activeElement.textContent") == "heal"
    wait_for(f"/^member [^{leader}] leads$/.test(document.getElementById('badge').textContent)")
    wait_for(f"document.querySelector('tr[data-member=\"{leader}\"]').dataset.state === 'down'")
    wait_for("document.querySelector('.mark.fault:not([hidden])')?.textContent === 'kill member-" + str(leader) + "'")
    wait_for(f"({PIXELS})(timeLine.charts[0], 'down') > 0")
    click(browser, ".heal-all")
    wait_for("document.querySelector('#fault-list li:not(.on)')?.textContent.includes('running: ')")
    wait_for("document.querySelectorAll('tr[data-state=down]').length === 0")


def cut_and_heal(browser: Browser, wait_for: Callable[[str], None]) -> None:
    link = "[data-link='0 1']"
    click(browser, "[data-kind=blackhole][data-arrow='->']")
    click(browser, link)
    wait_for(f"document.querySelector(\"{link}\").textContent === 'blackhole: heal'")
    wait_for("document.querySelector('#fault-list li.on')?.textContent.startsWith('blackhole member-0 -> member-1 on')")
    click(browser, link)
    wait_for(f"document.querySelector(\"{link}\").textContent === 'open'")
