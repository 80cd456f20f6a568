"""Every stream of every proxy belongs to one link; what is imposed on links is lifted again, also when only some of it
could be: on the proxies of this process.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

import pytest

from upheaval_chaos.errors import EnvironmentFault
from upheaval_chaos.proxy_server import ProxyServer
from upheaval_chaos.target import CHANNELS, CLIENTS, INGRESS, Dialler, Link, LinkEffect, LinkFaultKind
from upheaval_chaos.toxic_links import (
    DATAGRAM_LEGS,
    STREAM_LEGS,
    ProxyPlace,
    Stream,
    ToxicInjector,
    all_proxies,
    streams_of,
)
from upheaval_chaos.toxics import STREAMS, UPSTREAM
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


def test_lifting_again_what_failed_leaves_what_another_fault_holds(api: StandardToxiproxy) -> None:
    links = ToxicInjector(lambda _: api)
    proxy = ProxyPlace(0, 2, "log").name
    for name in (proxy, ProxyPlace(2, 0, "log").name):
        api.create(name, "127.0.0.1:1")
    links.impose([THERE, MISSING], CUT)
    links.impose([THERE], CUT)
    held = {toxic for toxic in toxics(api) if not toxic.startswith((proxy, ProxyPlace(2, 0, "log").name))}
    # Its proxy does not answer for a while.
    api._call("DELETE", f"/proxies/{proxy}")
    for _ in range(2):
        with pytest.raises(EnvironmentFault):
            links.lift([THERE, MISSING], CUT)
    api.create(proxy, "127.0.0.1:1")
    api.add_toxic(proxy, "timeout", UPSTREAM, {"timeout": 0})
    links.lift([THERE, MISSING], CUT)
    assert toxics(api) == held
    links.lift([THERE], CUT)
    assert toxics(api) == set()


@pytest.mark.parametrize("legs", [STREAM_LEGS, DATAGRAM_LEGS])
def test_every_stream_belongs_to_one_link(legs: Mapping[str, Sequence[str]]) -> None:
    ends = (CLIENTS, 0, 1, 2)
    found = [
        stream
        for source in ends
        for target in ends
        if source != target
        for stream in streams_of(Link(source, target), legs)
    ]
    assert len(set(found)) == len(found)
    assert set(found) == {Stream(place, way) for place in all_proxies(3, legs) for way in STREAMS}


@pytest.mark.parametrize("legs", [STREAM_LEGS, DATAGRAM_LEGS])
def test_a_link_is_what_either_end_has_dialled_of_it(legs: Mapping[str, Sequence[str]]) -> None:
    sides = [Link(0, 1, dialler=dialler) for dialler in (Dialler.SOURCE, Dialler.TARGET)]
    by_source, by_target = ([*streams_of(side, legs)] for side in sides)
    assert {stream.proxy.source for stream in by_source} == {0}
    assert {stream.proxy.source for stream in by_target} == {1}
    assert {*by_source, *by_target} == {*streams_of(Link(0, 1), legs)}
    # Answers travel the same connections.
    assert {stream.proxy for stream in streams_of(sides[0].reverse, legs)} == {stream.proxy for stream in by_source}
    assert [side.spared for side in sides] == sides[::-1]
    assert [side.roads for side in sides] == [[sides[0]], [sides[1].reverse]]


def test_who_dials_for_an_answer_in_datagrams() -> None:
    """An archive's answers are dialled, and those of a leader to its clients."""

    def upstream(link: Link) -> set[str]:
        return {each.proxy.name for each in streams_of(link, DATAGRAM_LEGS) if each.direction == UPSTREAM}

    assert upstream(Link(0, 1, "archive")) == {"0-to-1-archive", "0-to-1-replication"}
    assert upstream(Link(CLIENTS, 1)) == {f"clients-to-1-{INGRESS}"}
    assert upstream(Link(1, CLIENTS)) == {f"1-to-clients-egress-{number}" for number in (1, 2, 3)}
    assert {place.name for place in all_proxies(1)} == {"clients-to-0-ingress"}
