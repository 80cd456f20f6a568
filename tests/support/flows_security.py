"""What a cluster over TLS and with credentials refuses, and what it goes on through: bodies of tests on real members.

The runtimes are not known here: only how to have a member read its certificates again, which is the cluster's.
"""

import json
import shutil
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from support.tls_world import certificates, files_of, own_copy
from support.valid import require_valid
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.protocol.identities import AUTHORITIES, PRINCIPALS, SECURITY_FILE
from upheaval.checkers.verdict import Verdict
from upheaval.cli.build_commands import UserOptions
from upheaval.cli.security import add
from upheaval.errors import UsageError
from upheaval.records import Json
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.process_load import ProcessLoad
from upheaval.security import create_certificates
from upheaval.workload import WorkloadSettings
from upheaval_node.client.connect import AuthenticationError
from upheaval_node.client.driver import BlockingClient
from upheaval_node.client.driving import ClientOptions
from upheaval_node.errors import TimeoutExpired
from upheaval_node.tls_files import TlsFiles

LOAD: Final = WorkloadSettings(slots=4, rate=400)
SESSION_S: Final = 10.0


class Gate:
    """Certificates and credentials of a cluster that is still to be made, in a folder of the test's own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.certificates = own_copy(folder / "certificates")
        self.credentials = folder / "book"
        self.alice = folder / "alice"
        self.bob = folder / "bob"
        add(UserOptions("alice", self.credentials, self.alice, ("admin",), json=False))
        add(UserOptions("bob", self.credentials, self.bob, (), json=False))
        self.carol = folder / "carol"
        self.stranger = folder / "stranger"
        self.stranger.write_text("mallory:anything\n", encoding="utf-8")
        self.guesser = folder / "guesser"
        self.guesser.write_text("bob:anything\n", encoding="utf-8")


class Guarded:
    """A running cluster with a gate."""

    def __init__(self, gate: Gate, cluster: AnyCluster) -> None:
        self.gate = gate
        self.cluster = cluster

    def client(
        self, credentials: Path | None, tls: TlsFiles | None = None, timeout_s: float = SESSION_S
    ) -> BlockingClient:
        options: ClientOptions = {
            "resolver": self.cluster.resolver(),
            "tls": tls or self.cluster.client_tls(),
            "credentials_file": "" if credentials is None else str(credentials),
        }
        return BlockingClient(self.cluster.ingress_endpoints(), timeout_s, **options)

    def opens(self, credentials: Path | None) -> bool:
        """Whether a session is opened with these; the members' answer is what decides."""
        client = self.client(credentials)
        try:
            client.connect()
        except AuthenticationError:
            return False
        finally:
            client.close()
        return True

    def leader_address(self) -> tuple[str, int]:
        leader = self.cluster.wait_until_leader()
        endpoint = self.cluster.ingress_endpoints()[leader]
        host, _, port = self.cluster.resolver().resolve(endpoint, 0).rpartition(":")
        return host, int(port)


def only_those_of_the_credentials_file_get_a_session(guarded: Guarded) -> None:
    gate = guarded.gate
    known = [guarded.opens(each) for each in (gate.alice, gate.bob)]
    unknown = [guarded.opens(each) for each in (None, gate.stranger, gate.guesser)]
    assert (known, unknown) == ([True, True], [False, False, False])


def who_is_of_another_authority_is_refused_on_both_sides(guarded: Guarded) -> None:
    foreign = certificates() / "foreign"
    client = guarded.client(guarded.gate.alice, files_of("client", foreign))
    with pytest.raises(TimeoutExpired, match="its certificate is not of our authority"):
        client.connect()
    client.close()
    assert "unknown ca" in heard(guarded, files_of("client", foreign))


def who_shows_an_expired_certificate_or_none_is_refused(guarded: Guarded, folder: Path) -> None:
    late = own_copy(folder / "late")
    create_certificates(late, ["client"], begins=datetime.now(UTC) - timedelta(days=9), days=2)
    assert guarded.opens(guarded.gate.alice)
    assert "certificate expired" in heard(guarded, files_of("client", late))
    assert "certificate required" in heard(guarded, None)
    assert guarded.opens(guarded.gate.alice)


def heard(guarded: Guarded, files: TlsFiles | None) -> str:
    """What a client without any of our code hears of the leader, whatever that shows of itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if files is not None:
        context.load_cert_chain(files.certificate, files.key)
    with (
        socket.create_connection(guarded.leader_address(), SESSION_S) as sock,
        pytest.raises(ssl.SSLError) as caught,
        context.wrap_socket(sock) as secure,
    ):
        secure.recv(1)
    return (caught.value.reason or "").replace("_", " ").lower()


def certificates_are_renewed_under_load(guarded: Guarded) -> None:
    """A load runs through a renewal, through files that are no good, and through the return of a member."""
    cluster, gate = guarded.cluster, guarded.gate
    with ProcessLoad(cluster, LOAD, credentials_file=str(gate.bob)) as load:
        load.wait_until_acknowledged(load.counts.ok + 200, 30)
        follower = cluster.member((cluster.wait_until_leader() + 1) % 3)
        follower.kill()
        create_certificates(gate.certificates, ["member-0", "member-1", "member-2"], days=100)
        add(UserOptions("carol", gate.credentials, gate.carol, (), json=False))
        assert cluster.reload_security() == [f"member-{each}" for each in range(3) if each != follower.member_id]
        load.wait_until_acknowledged(load.counts.ok + 200, 30)
        # The order did not reach the member that was down: it read the new files at its start.
        follower.start()
        cluster.wait_until_caught_up(follower.member_id)
        spoil(gate.certificates / "member-0.pem")
        with pytest.raises(UsageError, match=r"member-0\.pem"):
            cluster.reload_security()
        cluster.member(0).node.reload()
        load.wait_until_acknowledged(load.counts.ok + 200, 30)
        assert guarded.opens(gate.carol)
        counts = load.finish()
    assert counts.ok >= 600
    cluster.try_strangers()
    converge = cluster.converge()
    assert converge.reached, converge.why


def spoil(path: Path) -> None:
    path.write_text("-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n", encoding="utf-8")


def the_run_is_valid_and_says_who_was_there(guarded: Guarded) -> None:
    """To be called when the cluster is down: the last word on everything before it."""
    run = guarded.cluster.run
    report = verify_run(run.path)
    found = {finding.promise: finding for finding in report.findings}
    require_valid(report)
    assert "all of 3 principals" in found[Promise.ONLY_CREDENTIALS].detail
    assert "refused 3 times" in found[Promise.ONLY_CREDENTIALS].detail
    assert "client, member-0, member-1, member-2" in found[Promise.ONLY_AUTHORITY].detail
    for member_id in range(3):
        events = list(run.member(member_id).read_trace())
        ends = [str(event.fields["not_after"]) for event in events if event.event == "certificates-read"]
        assert len(set(ends)) == 2, "the certificates that were read are not new ones"
    output = (run.member(0).path / "all.log").read_text(encoding="utf-8")
    assert "certificates not read" in output
    assert "the ones from before stay in use" in output
    assert "tls-peer-1" in "".join((run.member(each).path / "all.log").read_text(encoding="utf-8") for each in range(3))


def a_run_with_somebody_else_in_it_is_invalid(guarded: Guarded, folder: Path) -> None:
    """The same run, once with a principal that the credentials file does not have, once with a peer of another
    authority.
    """
    run = Path(shutil.copytree(guarded.cluster.folder, folder / "run"))
    path = run / SECURITY_FILE
    fields: dict[str, Json] = json.loads(path.read_text(encoding="utf-8"))
    for broken, promise, complaint in (
        ({**fields, PRINCIPALS: ["alice"]}, Promise.ONLY_CREDENTIALS, "for 'bob', who is not in the credentials file"),
        ({**fields, AUTHORITIES: ["another one"]}, Promise.ONLY_AUTHORITY, "not of our authority"),
    ):
        path.write_text(json.dumps(broken), encoding="utf-8")
        report = verify_run(run)
        found = {finding.promise: finding for finding in report.findings}
        assert report.verdict is Verdict.INVALID
        assert complaint in found[promise].detail
