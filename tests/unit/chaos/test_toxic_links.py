"""What is imposed on links is lifted again, also when only some of it could be: on the proxies of this process."""

import json
from collections.abc import Iterator

import pytest

from upheaval_chaos.errors import EnvironmentFault
from upheaval_chaos.proxy_server import ProxyServer
from upheaval_chaos.target import CHANNELS, Link, LinkEffect, LinkFaultKind
from upheaval_chaos.toxic_links import ProxyPlace, ToxicInjector
from upheaval_chaos.toxiproxy import StandardToxiproxy

CUT = LinkEffect(LinkFaultKind.BLACKHOLE)
THERE, MISSING = Link(0, 1, "log"), Link(0, 2, "log")


@pytest.fixture
def api() -> Iterator[StandardToxiproxy]:
    """Members 0 and 1 have all their proxies, member 2 has none."""
    with ProxyServer() as server:
        api = StandardToxiproxy(server.address)
        for source, target in ((0, 1), (1, 0)):
            for channel in CHANNELS:
                api.create(ProxyPlace(source, target, channel).name, "127.0.0.1:1")
        yield api


def toxics(api: StandardToxiproxy) -> set[str]:
    proxies = json.loads(api._call("GET", "/proxies"))
    return {f"{name} {toxic['name']}" for name, proxy in proxies.items() for toxic in proxy["toxics"]}


def test_what_was_imposed_before_a_proxy_failed_can_be_lifted(api: StandardToxiproxy) -> None:
    links = ToxicInjector(lambda _: api)
    with pytest.raises(EnvironmentFault):
        links.impose([THERE, MISSING], CUT)
    assert len(toxics(api)) == 2
    links.lift([THERE, MISSING], CUT)
    assert toxics(api) == set()


def test_lifting_what_was_never_imposed_leaves_what_another_fault_holds(api: StandardToxiproxy) -> None:
    links = ToxicInjector(lambda _: api)
    links.impose([THERE], CUT)
    held = toxics(api)
    with pytest.raises(EnvironmentFault):
        links.impose([MISSING, THERE], CUT)
    links.lift([MISSING, THERE], CUT)
    assert toxics(api) == held
    links.lift([THERE], CUT)
    assert toxics(api) == set()
    links.impose([THERE], CUT)
    assert toxics(api) == held
