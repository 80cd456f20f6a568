"""Which authenticator and which authorisation a module goes by: the default, the one named, or the one given."""

from random import Random

import pytest

from support.asking_party import Challenges, Party, PrincipalOnly
from support.cluster_world import RecordedTrace, members_string
from support.media_world import RecordedErrors
from support.memory_network import MemoryNetwork
from support.memory_storage import MemoryStorage
from unit.cluster.test_backup_requests import configured, started, told
from upheaval_node.cluster.authentication import (
    AcceptEveryone,
    Always,
    Authenticator,
    AuthorisationService,
    authorisation_named,
)
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.counters import Counters
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.protocol import cluster_messages as cm, codec

TEMPLATES = {"BackupQuery": 77, "Heartbeat": 79, "StandbySnapshot": 81, "AdminRequest": 26}


def allowed(rule: AuthorisationService) -> set[str]:
    return {name for name, template in TEMPLATES.items() if rule.is_authorised(111, template, None, b"somebody")}


def module(
    *, authenticator: Authenticator | None = None, authorisation: AuthorisationService | None = None, **named: object
) -> ConsensusModule:
    settings = configured(**{name.removesuffix("_name"): value for name, value in named.items()})
    driver = MediaDriver(MemoryNetwork(), StaticResolver(), settings.media, Random(1))
    context = ModuleContext(
        driver,
        MemoryStorage(),
        Counters.in_memory(512),
        settings,
        members_string(1),
        0,
        RecordedTrace(),
        RecordedErrors(),
    )
    return ConsensusModule(context, Random(1), authenticator=authenticator, authorisation=authorisation)


def authorisation_of(module: ConsensusModule) -> AuthorisationService:
    """The one that both clients and backups meet."""
    assert module._state.sessions._authorisation is module._backups._authorisation
    return module._backups._authorisation


def authenticator_of(module: ConsensusModule) -> Authenticator:
    assert module._state.sessions._authenticator is module._backups._authenticator
    return module._backups._authenticator


def requests(party: Party) -> list[codec.Message]:
    return [party.query(), party.heartbeat(), party.notice()]


@pytest.mark.parity("CF-01")
def test_deny_all_denies_backup_heartbeat_standby_and_admin() -> None:
    _, leader, party = started(1, configured(authorisation="DENY_ALL"))
    answers = [told(party.ask(leader, each)) for each in requests(party)]
    assert answers == [
        (cm.EventCode.AUTHENTICATION_REJECTED, f"Not authorised for {name}")
        for name in ("BackupQuery", "Heartbeat", "StandbySnapshot")
    ]
    assert allowed(authorisation_named("DENY_ALL")) == set()


@pytest.mark.parity("CF-02")
def test_allow_all_allows_them() -> None:
    _, leader, party = started(1, configured(authorisation="ALLOW_ALL"))
    assert isinstance(party.ask(leader, party.query()), cm.BackupResponse)
    assert isinstance(party.ask(leader, party.heartbeat()), cm.HeartbeatResponse)
    assert allowed(authorisation_named("ALLOW_ALL")) == set(TEMPLATES)


@pytest.mark.parity("CX-06")
def test_by_default_backups_and_standbys_are_allowed_and_admin_requests_are_not() -> None:
    assert allowed(authorisation_of(module())) == {"BackupQuery", "Heartbeat", "StandbySnapshot"}


@pytest.mark.parity("CX-07")
def test_the_default_is_used_where_nothing_is_set() -> None:
    assert type(authorisation_of(module())) is type(authorisation_named(""))


@pytest.mark.parity("CX-08")
def test_the_default_is_used_where_the_setting_is_empty() -> None:
    assert type(authorisation_of(module(authorisation_name=""))) is type(authorisation_named(""))


@pytest.mark.parity("CX-09")
def test_an_authorisation_is_found_by_the_name_of_its_class() -> None:
    assert isinstance(authorisation_of(module(authorisation_name="support.asking_party:PrincipalOnly")), PrincipalOnly)


@pytest.mark.parity("CX-10")
def test_an_authorisation_that_is_given_wins() -> None:
    given = Always(answer=False)
    assert authorisation_of(module(authorisation=given, authorisation_name="ALLOW_ALL")) is given


@pytest.mark.parity("CX-11")
def test_the_default_authenticator_is_used_where_the_setting_is_empty() -> None:
    assert isinstance(authenticator_of(module(authenticator_name="")), AcceptEveryone)


@pytest.mark.parity("CX-12")
def test_an_authenticator_is_found_by_the_name_of_its_class() -> None:
    assert isinstance(authenticator_of(module(authenticator_name="support.asking_party:Challenges")), Challenges)


@pytest.mark.parity("CX-13")
def test_an_authenticator_that_is_given_wins() -> None:
    given = AcceptEveryone()
    found = authenticator_of(module(authenticator=given, authenticator_name="support.asking_party:Challenges"))
    assert found is given
