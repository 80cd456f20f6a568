"""The authenticator and the authorisation of a credentials file, and how many may wait for them."""

from dataclasses import dataclass, field
from random import Random

import pytest

from support.cluster_parts import PartsWorld
from unit.cluster.test_sessions import ClientSide
from upheaval_node.cluster.authentication import (
    AcceptEveryone,
    Authenticator,
    SessionProxy,
)
from upheaval_node.cluster.credentials_authenticator import (
    CredentialsAuthenticator,
    CredentialsFile,
    RolesOfCredentials,
    credentials_of,
)
from upheaval_node.credentials import MIN_COUNT, SALT_LENGTH, SecretCredentials, make_verifier
from upheaval_node.errors import UsageError
from upheaval_node.member_config import apply_overrides
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.settings import ClusterSettings
from upheaval_node.types import Now

NOW = Now(0, 0)
SALT = bytes(SALT_LENGTH)
BACKUPS = (cm.BackupQuery.TEMPLATE_ID, cm.HeartbeatRequest.TEMPLATE_ID, cm.StandbySnapshot.TEMPLATE_ID)
REQUESTS = (*BACKUPS, cm.AdminRequest.TEMPLATE_ID)


def line(principal: str, *roles: str) -> str:
    return f"{principal}:{make_verifier('open sesame', SALT, frozenset(roles), MIN_COUNT)}\n"


BOOK = line("alice", "admin") + line("bob") + line("backup", "backup")


@dataclass
class Proxy:
    """A session that is about to open."""

    session_id: int
    challenges: list[bytes] = field(default_factory=list)
    outcome: bytes | None = None
    is_rejected: bool = False

    def authenticate(self, principal: bytes = b"") -> None:
        self.outcome = principal

    def challenge(self, encoded_challenge: bytes) -> bool:
        self.challenges.append(encoded_challenge)
        return True

    def reject(self) -> None:
        self.is_rejected = True


def authenticator(max_claims: int = 10) -> CredentialsAuthenticator:
    return CredentialsAuthenticator(CredentialsFile("book", lambda _: BOOK), Random(1), max_claims=max_claims)


def opened(who: Authenticator, credentials: SecretCredentials, session_id: int = 1) -> Proxy:
    """From the connect request to the decision."""
    proxy = Proxy(session_id)
    who.on_connect_request(NOW, session_id, credentials.encoded_credentials())
    who.on_connected_session(NOW, proxy)
    who.on_challenged_session(NOW, proxy)
    assert (proxy.outcome, proxy.is_rejected) == (None, False), "decided without an answer"
    who.on_challenge_response(NOW, session_id, credentials.on_challenge(proxy.challenges[0]))
    who.on_challenged_session(NOW, proxy)
    return proxy


def test_who_proves_the_secret_is_let_in_as_that_principal() -> None:
    assert opened(authenticator(), SecretCredentials("alice", "open sesame")).outcome == b"alice"


@pytest.mark.parametrize(("principal", "secret"), [("alice", "guess"), ("mallory", "open sesame")])
def test_who_does_not_is_rejected_after_the_same_steps(principal: str, secret: str) -> None:
    proxy = opened(authenticator(), SecretCredentials(principal, secret))
    assert (proxy.outcome, proxy.is_rejected, len(proxy.challenges)) == (None, True, 1)


def test_an_answer_counts_once_and_for_its_own_challenge_only() -> None:
    who, alice = authenticator(), SecretCredentials("alice", "open sesame")
    first = opened(who, alice, 1)
    second = Proxy(2)
    who.on_connect_request(NOW, 2, b"alice")
    who.on_connected_session(NOW, second)
    assert second.challenges != first.challenges
    who.on_challenge_response(NOW, 2, alice.on_challenge(first.challenges[0]))
    # A second answer comes too late, even the right one.
    who.on_challenge_response(NOW, 2, alice.on_challenge(second.challenges[0]))
    who.on_challenged_session(NOW, second)
    assert second.is_rejected


def test_a_challenge_that_could_not_be_sent_is_the_same_when_it_is_sent_again() -> None:
    who, proxy = authenticator(), Proxy(1)
    who.on_connect_request(NOW, 1, b"alice")
    who.on_connected_session(NOW, proxy)
    who.on_connected_session(NOW, proxy)
    assert len(set(proxy.challenges)) == 1


def test_sessions_that_are_never_heard_of_again_are_forgotten() -> None:
    who = authenticator(max_claims=10)
    for session_id in range(10_000):
        who.on_connect_request(NOW, session_id, b"x" * 5000)
    assert len(who._claims) == 10
    assert sum(len(claim.principal) for claim in who._claims.values()) < 10 * 300
    late = Proxy(1)
    who.on_connected_session(NOW, late)
    assert late.is_rejected


def test_an_id_that_comes_again_is_as_new_as_any_other() -> None:
    who = authenticator(max_claims=3)
    for session_id in (-1, 1):
        who.on_connect_request(NOW, session_id, b"mallory")
    who.on_connect_request(NOW, -1, b"backup")
    for session_id in (2, 3):
        who.on_connect_request(NOW, session_id, b"bob")
    backup = Proxy(-1)
    who.on_connected_session(NOW, backup)
    assert (backup.is_rejected, len(backup.challenges)) == (False, 1)


def test_roles_say_who_may_ask_for_what() -> None:
    rule = RolesOfCredentials(CredentialsFile("book", lambda _: BOOK))
    allowed = {
        name: [each for each in REQUESTS if rule.is_authorised(111, each, None, name)]
        for name in (b"alice", b"bob", b"backup", b"mallory")
    }
    assert allowed == {b"alice": [REQUESTS[-1]], b"bob": [], b"backup": list(BACKUPS), b"mallory": []}
    assert not rule.is_authorised(110, REQUESTS[-1], None, b"alice")


def test_settings_name_a_credentials_file() -> None:
    settings = ClusterSettings(authenticator="credentials:place", authorisation="roles:place")
    asked: list[str] = []

    def read(source: str) -> str:
        asked.append(source)
        return BOOK

    who, rule, files = credentials_of(settings, read, Random(1))
    assert who is not None
    assert opened(who, SecretCredentials("bob", "open sesame")).outcome == b"bob"
    assert rule is not None
    assert rule.is_authorised(111, cm.AdminRequest.TEMPLATE_ID, 0, b"alice")
    assert (asked, len(files)) == (["place", "place"], 2)
    assert credentials_of(ClusterSettings(authorisation="ALLOW_ALL"), read, Random(1)) == (None, None, [])
    with pytest.raises(UsageError, match="place line 1 is not of the form"):
        credentials_of(settings, lambda _: "nonsense", Random(1))


def test_a_credentials_file_is_read_again_and_a_bad_one_changes_nothing() -> None:
    texts = [BOOK]
    who, _, (files,) = credentials_of(ClusterSettings(authenticator="credentials:b"), lambda _: texts[-1], Random(1))
    assert who is not None
    carol = SecretCredentials("carol", "open sesame")
    assert opened(who, carol, 1).is_rejected
    texts.append(line("carol"))
    files.reload()
    assert opened(who, carol, 2).outcome == b"carol"
    assert opened(who, SecretCredentials("alice", "open sesame"), 3).is_rejected
    texts.append("nonsense")
    with pytest.raises(UsageError, match="b line 1 is not of the form"):
        files.reload()
    assert opened(who, carol, 4).outcome == b"carol"


class Undecided(AcceptEveryone):
    """Keeps every client waiting until `is_open` is set."""

    is_open = False

    def on_connected_session(self, now: Now, proxy: SessionProxy) -> None:
        if self.is_open:
            proxy.authenticate()


def waiting(count: int, **limits: int) -> tuple[PartsWorld, Undecided, list[ClientSide]]:
    """So many clients of one host that all wait."""
    who = Undecided()
    world = PartsWorld(max_sessions=10, authenticator=who)
    world.context.settings = apply_overrides(world.context.settings, limits)
    clients = [ClientSide(world, f"c{number}") for number in range(count)]
    for client in clients:
        client.connect()
    return world, who, clients


@pytest.mark.parametrize("name", ["max_pending_sessions", "max_pending_sessions_of_peer"])
def test_only_so_many_wait_and_the_rest_is_told(name: str) -> None:
    world, who, clients = waiting(5, **{name: 3})
    assert len(world.sessions.pending) == 3
    assert [client.event_codes() for client in clients[3:]] == [[(cm.EventCode.ERROR, "concurrent session limit")]] * 2
    who.is_open = True
    clients[0].tick()
    assert [client.event_codes() for client in clients[:3]] == [[(cm.EventCode.OK, "")]] * 3
    late = ClientSide(world, "late")
    late.connect()
    assert late.event_codes() == [(cm.EventCode.OK, "")]
