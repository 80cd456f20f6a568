"""Authentication and authorisation that a member's configuration names by their classes."""

from dataclasses import replace
from random import Random
from typing import ClassVar

import pytest

from support.cluster_world import ClusterWorld
from unit.cluster.test_admin import Greeting
from upheaval_node.client.session import ClusterClient
from upheaval_node.cluster.authentication import (
    AcceptEveryone,
    SessionProxy,
    authenticator_named,
    authorisation_named,
)
from upheaval_node.errors import UsageError
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.member_config import config_from_fields
from upheaval_node.settings import profile_settings
from upheaval_node.types import Now

HERE = __name__


class ByPassword:
    """Accepts `name:open sesame` as that name; challenges who says only a name for the password, and refuses others."""

    def __init__(self) -> None:
        self._said: dict[int, bytes] = {}

    def on_connect_request(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:
        self._said[session_id] = encoded_credentials

    def on_connected_session(self, now: Now, proxy: SessionProxy) -> None:
        name, separator, password = self._said[proxy.session_id].partition(b":")
        if not separator:
            proxy.challenge(b"password?")
        elif password == b"open sesame":
            proxy.authenticate(name)
        else:
            proxy.reject()

    def on_challenge_response(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:
        self._said[session_id] += b":" + encoded_credentials

    def on_challenged_session(self, now: Now, proxy: SessionProxy) -> None:
        if b":" in self._said[proxy.session_id]:
            self.on_connected_session(now, proxy)


class SeesEverybody(AcceptEveryone):
    """Lets everybody in, and writes down what it was shown: credentials with the connect request, then the session."""

    seen: ClassVar[list[tuple[int, bytes | None]]] = []

    def on_connect_request(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:
        self.seen.append((session_id, encoded_credentials))

    def on_connected_session(self, now: Now, proxy: SessionProxy) -> None:
        self.seen.append((proxy.session_id, None))
        super().on_connected_session(now, proxy)


class AliceMayAll:
    def is_authorised(self, schema_id: int, template_id: int, request_type: int | None, principal: bytes) -> bool:
        return principal == b"alice"


class Lame:
    """Has none of the methods that anybody asks for."""


class Says:
    def __init__(self, credentials: bytes, answer: bytes = b"") -> None:
        self._credentials = credentials
        self._answer = answer

    def encoded_credentials(self) -> bytes:
        return self._credentials

    def on_challenge(self, encoded_challenge: bytes) -> bytes:
        return self._answer


def started(authenticator: str = "ByPassword") -> ClusterWorld:
    chosen = profile_settings("test")
    cluster = replace(chosen.cluster, authenticator=f"{HERE}:{authenticator}", authorisation=f"{HERE}:AliceMayAll")
    world = ClusterWorld(3, settings=replace(chosen, cluster=cluster), services=lambda: [Greeting()])
    world.start_all()
    world.await_all()
    return world


def connect(world: ClusterWorld, says: Says) -> ClusterClient:
    """A client that has its session, or was refused."""
    driver = MediaDriver(world.network, StaticResolver(), world.settings.media, Random(4))
    endpoints = {member_id: f"m{member_id}:1" for member_id in range(3)}
    session = ClusterClient(driver, endpoints, random=Random(world.ns), credentials=says)

    def turn() -> bool:
        driver.do_work(world.now)
        session.do_work(world.now)
        session.poll(lambda _, __: None)
        return session.is_connected or session.is_closed

    world.until(turn, step_ms=1)
    return session


@pytest.mark.parity("AU-02", "AU-03")
@pytest.mark.parametrize("says", [Says(b"alice:open sesame"), Says(b"alice", b"open sesame")])
def test_services_of_all_members_know_a_client_by_the_principal_that_it_proved(says: Says) -> None:
    world = started()
    assert connect(world, says).is_connected
    world.until(lambda: all((0, b"alice") in member.service.messages for member in world.members.values()))


@pytest.mark.parity("AU-04", "AU-05")
@pytest.mark.parametrize("says", [Says(b""), Says(b"mallory"), Says(b"alice:guess"), Says(b"alice", b"guess")])
def test_who_proves_nothing_gets_no_session(says: Says) -> None:
    world = started()
    client = connect(world, says)
    assert client.is_closed
    assert "session failed authentication" in str(client.error)
    world.advance(500)
    assert [member.service.opened for member in world.members.values()] == [[], [], []]


@pytest.mark.parity("AU-01")
def test_empty_credentials_are_shown_with_the_session_of_the_client_and_may_be_accepted() -> None:
    SeesEverybody.seen.clear()
    world = started(authenticator="SeesEverybody")
    client = connect(world, Says(b""))
    assert SeesEverybody.seen == [(client.session_id, b""), (client.session_id, None)]
    world.until(lambda: all((0, b"") in member.service.messages for member in world.members.values()))


def test_a_member_is_configured_with_names() -> None:
    settings = {"cluster": {"authenticator": f"{HERE}:ByPassword", "authorisation": f"{HERE}:AliceMayAll"}}
    values = {"member_id": 0, "members": "0,a:1,a:2,a:3,a:4,a:5", "folder": ".", "settings": settings}
    cluster = config_from_fields(values).settings.cluster
    assert isinstance(authenticator_named(cluster.authenticator), ByPassword)
    rule = authorisation_named(cluster.authorisation)
    assert [rule.is_authorised(111, 26, 0, name) for name in (b"alice", b"bob")] == [True, False]
    assert isinstance(authenticator_named(""), AcceptEveryone)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("ByPassword", "authenticator 'ByPassword' is not of the form package.module:Class"),
        ("no.such:Thing", "no module 'no'"),
        (f"{HERE}:Nobody", f"module {HERE} has no class 'Nobody'"),
        (f"{HERE}:connect", "connect is not a class"),
        (f"{HERE}:Says", r"Says\(\) failed: TypeError"),
        (f"{HERE}:Lame", "lacks a method"),
    ],
)
def test_a_name_that_stands_for_no_authenticator_is_refused(name: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        authenticator_named(name)


def test_a_name_that_stands_for_no_rule_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"'ALLOW_SOME' is neither package\.module:Class nor roles:FILE, ALLOW_ALL, DENY_ALL"
    ):
        authorisation_named("ALLOW_SOME")
    with pytest.raises(UsageError, match="has no method is_authorised"):
        authorisation_named(f"{HERE}:Lame")
