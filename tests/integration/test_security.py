"""Members as processes with TLS and credentials: who is refused, what goes on; tests/docker has it on containers."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import flows_security as flows
from support.live_clusters import end_without_trace
from support.tls_world import own_copy
from upheaval.cli.build_commands import UserOptions
from upheaval.cli.security import add
from upheaval.records import CompanionConfig, MemberFolder
from upheaval.runtimes.process import ProcessCluster
from upheaval.security import create_certificates
from upheaval.system import ClusterSpec
from upheaval.waits import wait_until
from upheaval_node.client.asyncio_driver import AsyncClient
from upheaval_node.client.connect import AuthenticationError

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[flows.Guarded]:
    """One cluster for all tests but the last two, which judge it when it is down."""
    folder = tmp_path_factory.mktemp("security")
    gate = flows.Gate(folder)
    cluster = ProcessCluster.create(
        folder / "run", ClusterSpec(tls=str(gate.certificates), credentials=str(gate.credentials))
    )
    try:
        cluster.up()
        yield flows.Guarded(gate, cluster)
    finally:
        end_without_trace(cluster)


def test_only_those_of_the_credentials_file_get_a_session(guarded: flows.Guarded) -> None:
    flows.only_those_of_the_credentials_file_get_a_session(guarded)


def test_who_is_of_another_authority_is_refused_on_both_sides(guarded: flows.Guarded) -> None:
    flows.who_is_of_another_authority_is_refused_on_both_sides(guarded)


def test_who_shows_an_expired_certificate_or_none_is_refused(guarded: flows.Guarded, tmp_path: Path) -> None:
    flows.who_shows_an_expired_certificate_or_none_is_refused(guarded, tmp_path)


def test_certificates_are_renewed_under_load(guarded: flows.Guarded) -> None:
    flows.certificates_are_renewed_under_load(guarded)


def test_the_run_is_valid_and_one_with_somebody_else_in_it_is_not(guarded: flows.Guarded, tmp_path: Path) -> None:
    guarded.cluster.down()
    flows.the_run_is_valid_and_says_who_was_there(guarded)
    flows.a_run_with_somebody_else_in_it_is_invalid(guarded, tmp_path)


def test_split_members_and_clients_of_asyncio_do_the_same(tmp_path: Path) -> None:
    """The media driver's process has the certificates, the consensus module's the credentials file; a reload reaches
    both.
    """
    gate = flows.Gate(tmp_path)
    cluster = ProcessCluster.create(
        tmp_path / "run",
        ClusterSpec(components="split", tls=str(gate.certificates), credentials=str(gate.credentials), members=3),
    )
    try:
        cluster.up()
        assert asyncio.run(writes(cluster, str(gate.bob)))
        with pytest.raises(AuthenticationError):
            asyncio.run(writes(cluster, str(gate.guesser)))
        add(UserOptions("carol", gate.credentials, gate.carol, (), json=False))
        create_certificates(gate.certificates, ["member-0", "member-1", "member-2"], days=100)
        cluster.reload_security()
        wait_until(
            lambda: all(len(read_events(cluster, member)) == 3 for member in range(3)),
            timeout_s=flows.SESSION_S,
            describe=lambda: f"only {[read_events(cluster, member) for member in range(3)]} was read again",
        )
        assert asyncio.run(writes(cluster, str(gate.carol)))
    finally:
        end_without_trace(cluster)


def test_a_backup_reads_its_certificates_again_with_the_members(tmp_path: Path) -> None:
    folder = own_copy(tmp_path / "certificates")
    cluster = ProcessCluster.create(tmp_path / "run", ClusterSpec(tls=str(folder), members=1))
    try:
        cluster.up()
        backup = cluster.add_companion(CompanionConfig("backup-0"))
        backup.start()
        wait_until(
            lambda: backup.status().state is not None,
            timeout_s=flows.SESSION_S,
            describe=lambda: f"the backup gives no sign of life: {backup.status()}",
        )
        create_certificates(folder, ["member-0", "backup-0"], days=100)
        assert cluster.reload_security() == ["member-0", "backup-0"]
        trace = MemberFolder(cluster.run.path / "backup-0", 0)
        wait_until(
            lambda: sum(event.event == "certificates-read" for event in trace.read_trace()) == 2,
            timeout_s=flows.SESSION_S,
            describe=lambda: f"not read again by the backup: {[event.event for event in trace.read_trace()]}",
        )
        assert backup.is_running()
    finally:
        end_without_trace(cluster)


async def writes(cluster: ProcessCluster, credentials: str) -> bool:
    tls = cluster.client_tls()
    endpoints = cluster.ingress_endpoints()
    async with AsyncClient(endpoints, flows.SESSION_S, tls=tls, credentials_file=credentials) as client:
        await client.write("k", b"v")
        return await client.read("k") == b"v"


def read_events(cluster: ProcessCluster, member_id: int) -> list[str]:
    """What the processes of a member have read again: each file once, by the process that needs it."""
    events = cluster.run.member(member_id).read_trace()
    read = [event for event in events if event.event in ("certificates-read", "credentials-read")]
    return [f"{event.fields['component']} {event.event}" for event in read][1:]
