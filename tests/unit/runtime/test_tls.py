"""Connections over TLS: bytes, back pressure, names, refusals, reloading; with real sockets and certificates."""

import os
import shutil
import socket
import ssl
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.tls_world import certificates, files_of, own_copy
from unit.runtime.parties import Echo, Pair, Recorder, Sender, run_until
from upheaval.security import create_certificates
from upheaval_node.errors import UsageError
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.network import MAX_HANDSHAKES_OF_HOST, SelectorNetwork
from upheaval_node.runtime.tls import Refusal, TlsIdentity, TlsRules
from upheaval_node.runtime.tls_connection import MAX_UNSENT
from upheaval_node.tls_files import TlsFiles, tls_files

MEGABYTE = 1024 * 1024
ANY_PORT = "127.0.0.1:0"


HOSTS: list["Host"] = []
"""Those of the test that runs."""


class Host:
    """A process with an identity of its own, on a loop that it shares with others."""

    def __init__(self, loop: Loop, files: TlsFiles, rules: TlsRules | None = None) -> None:
        HOSTS.append(self)
        self.identity = TlsIdentity(files, rules)
        self.refusals: list[Refusal] = []
        self.identity.on_refused = lambda refusal, _: self.refusals.append(refusal)
        self.secured: list[tuple[str, bool]] = []
        self.identity.on_secured = lambda peer: self.secured.append((peer.name, peer.is_dialled))
        self.network = SelectorNetwork(loop, self.identity)

    @property
    def refused(self) -> list[str]:
        return [each.kind for each in self.refusals]


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    HOSTS.clear()
    yield loop
    for host in HOSTS:
        host.network.close()
    loop.close()


def member(loop: Loop, number: int = 0, rules: TlsRules | None = None) -> Host:
    return Host(loop, files_of(f"member-{number}"), rules)


def dial(here: Host, there: Host, name: str = "", *, loop: Loop) -> tuple[Recorder, Recorder]:
    """Dial and wait until both ends are connected, or the dialling one is closed."""
    server, client = Recorder(), Recorder()
    listener = there.network.listen(ANY_PORT, lambda _: server)
    here.network.dial(f"{name}@{listener.address}" if name else listener.address, client)
    run_until(loop, lambda: client.closed or (client.connection and server.connection))
    return client, server


def test_bytes_arrive_whole_and_in_order_through_partial_writes(loop: Loop) -> None:
    payload = os.urandom(16 * MEGABYTE)
    sender = Sender(payload)
    pair = Pair(member(loop).network, ANY_PORT, sender, Recorder())
    assert sender.rest, "the first send was to take a part only"
    run_until(loop, lambda: len(pair.server.received) == len(payload))
    assert pair.server.received == payload
    assert sender.writable_count > 0


def test_a_read_hands_on_what_it_brings_in_one_piece(loop: Loop) -> None:
    payload = os.urandom(8 * MEGABYTE)
    pair = Pair(member(loop).network, ANY_PORT, Sender(payload), Recorder())
    run_until(loop, lambda: len(pair.server.received) == len(payload))
    records = len(payload) // (16 * 1024)
    assert pair.server.chunk_count < records // 2


def test_an_echo_of_many_megabytes_comes_back_and_a_slow_reader_makes_the_sender_wait(loop: Loop) -> None:
    payload = os.urandom(8 * MEGABYTE)
    pair = Pair(member(loop).network, ANY_PORT, Sender(payload), Echo())
    run_until(loop, lambda: len(pair.client.received) == len(payload))
    assert pair.client.received == payload


def test_who_does_not_read_makes_the_sender_wait_and_hold_little(loop: Loop) -> None:
    sender = Sender(os.urandom(32 * MEGABYTE))
    pair = Pair(member(loop).network, ANY_PORT, sender, Recorder())
    pair.server.link.pause_reading(True)
    while loop.run_once(0.2):
        pass
    left = len(sender.rest)
    assert left > 0
    assert loop.run_once(0.01) == 0, "a blocked connection keeps the loop awake"
    unsent = pair.client.link._unsent  # type: ignore[attr-defined]
    assert len(unsent) <= MAX_UNSENT
    pair.server.link.pause_reading(False)
    run_until(loop, lambda: len(pair.server.received) == 32 * MEGABYTE)


def test_what_was_accepted_arrives_although_the_connection_is_closed_at_once(loop: Loop) -> None:
    pair = Pair(member(loop).network, ANY_PORT, Recorder(), Recorder())
    pair.server.link.pause_reading(True)
    payload = os.urandom(16 * MEGABYTE)
    accepted = pair.client.link.send([payload])
    pair.client.link.close()
    pair.server.link.pause_reading(False)
    run_until(loop, lambda: pair.server.closed)
    assert 0 < accepted < len(payload)
    assert pair.server.received == payload[:accepted]


def test_both_ends_know_each_other_by_name(loop: Loop) -> None:
    here, there = member(loop, 0), member(loop, 1)
    client, server = dial(here, there, "member-1", loop=loop)
    assert client.link.peer.startswith("member-1@127.0.0.1:")
    assert server.link.peer.startswith("member-0@127.0.0.1:")
    assert (here.secured, there.secured) == ([("member-1", True)], [("member-0", False)])


def test_who_is_not_the_member_that_was_dialled_is_refused(loop: Loop) -> None:
    here, there = member(loop, 0), member(loop, 1)
    client, server = dial(here, there, "member-2", loop=loop)
    assert client.closed == ["TLS: it is member-1, and only member-2 is wanted here"]
    assert here.refused == ["wrong-name"]
    run_until(loop, lambda: server.closed)
    assert server.received == b""


def test_a_listener_lets_in_whom_its_rules_name(loop: Loop) -> None:
    rules = TlsRules({ANY_PORT: ("member-*", "backup-*")})
    there = member(loop, 1, rules)
    outcomes = {}
    for name in ("member-0", "backup-0", "standby-0", "client"):
        client, server = dial(Host(loop, files_of(name)), there, loop=loop)
        run_until(loop, lambda: client.closed or server.connection)  # noqa: B023 - called at once
        outcomes[name] = server.connection is not None
    assert outcomes == {"member-0": True, "backup-0": True, "standby-0": False, "client": False}
    assert there.refused == ["wrong-name", "wrong-name"]


def test_another_authority_is_refused_and_both_ends_say_why(loop: Loop) -> None:
    folder = certificates() / "foreign"
    there = member(loop, 1)
    # One that trusts ours, but is of another: the listener refuses it, and says so.
    stranger = raw_context(files_of("member-0", folder, authority=certificates()))
    assert "unknown ca" in refused_by(there, loop, stranger)
    # One that does not trust us: it refuses the listener, who hears that.
    client, _ = dial(Host(loop, files_of("member-0", folder)), there, loop=loop)
    assert client.closed == ["TLS: its certificate is not of our authority"]
    run_until(loop, lambda: len(there.refusals) == 2)
    assert there.refused == ["wrong-authority", "reported-wrong-authority"]
    assert there.refusals[1].text == "it says that our certificate is not of its authority"


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [("member-7", "expired", "certificate expired"), ("member-8", "not-yet-valid", "bad certificate")],
)
def test_a_certificate_out_of_its_time_is_refused(loop: Loop, name: str, kind: str, said: str) -> None:
    there = member(loop, 1)
    assert said in refused_by(there, loop, raw_context(files_of(name)))
    assert there.refused == [kind]


def test_who_shows_no_certificate_or_speaks_no_tls_is_refused(loop: Loop) -> None:
    there = member(loop, 1)
    assert "certificate required" in refused_by(there, loop, raw_context(None))
    old = raw_context(files_of("member-0"))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert "protocol version" in refused_by(there, loop, old)
    with plain(there) as sock:
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        run_until(loop, lambda: len(there.refusals) == 3)
    assert there.refused == ["no-certificate", "not-tls", "not-tls"]


def test_the_one_that_is_refused_says_why(loop: Loop) -> None:
    """A member whose certificate ran out while it ran."""
    late = member(loop, 0)
    late.identity._client.load_cert_chain(files_of("member-7").certificate, files_of("member-7").key)
    client, _ = dial(late, member(loop, 1), loop=loop)
    run_until(loop, lambda: client.closed)
    assert client.closed == ["TLS: it says that our certificate has expired"]
    assert late.refused == ["reported-expired"]


def test_handshakes_that_do_not_go_on_are_bounded_and_end(loop: Loop) -> None:
    there = member(loop, 1)
    listener = there.network.listen(ANY_PORT, lambda _: Recorder())
    idle = [socket.create_connection(split(listener.address)) for _ in range(MAX_HANDSHAKES_OF_HOST + 10)]
    run_until(loop, lambda: len(there.refusals) == 10)
    assert set(there.refused) == {"handshake-flood"}
    assert len(there.network.tls.handshakes) == MAX_HANDSHAKES_OF_HOST
    for connection in list(there.network.tls.handshakes):
        connection._give_up_handshake()
    assert there.refused.count("handshake-timed-out") == MAX_HANDSHAKES_OF_HOST
    assert not there.network.tls.handshakes
    for sock in idle:
        sock.close()


def test_who_is_refused_or_gone_costs_no_more_memory(loop: Loop) -> None:
    there = member(loop, 1)
    listener = there.network.listen(ANY_PORT, lambda _: Recorder())
    host, _, port = listener.address.rpartition(":")
    for last_words in (b"GET / HTTP/1.1\r\n\r\n" * 1000, b""):
        with socket.create_connection((host, int(port))) as stranger:
            run_until(loop, lambda: there.network.tls.handshakes)
            (connection,) = there.network.tls.handshakes
            state = weakref.ref(connection._tls)
            del connection
            if last_words:
                stranger.sendall(last_words)
                run_until(loop, lambda: not there.network.tls.handshakes)
        run_until(loop, lambda: not there.network.tls.handshakes)
        assert state() is None


def test_new_connections_use_the_files_that_were_read_last_and_old_ones_live_on(loop: Loop, tmp_path: Path) -> None:
    folder = own_copy(tmp_path / "certificates")
    here = Host(loop, files_of("member-0", folder))
    there = member(loop, 1)
    old_client, old_server = dial(here, there, loop=loop)
    before = here.identity.not_after
    create_certificates(folder, ["member-0"], days=100)
    here.identity.reload()
    assert here.identity.not_after != before
    new_client, new_server = dial(here, there, "member-1", loop=loop)
    for client, server in ((old_client, old_server), (new_client, new_server)):
        client.link.send([b"still here"])
        run_until(loop, lambda: server.received == b"still here")  # noqa: B023 - called at once


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ("broken", "cannot use .*member-0.pem for TLS"),
        ("missing", "cannot read .*member-0.pem with .*: No such file or directory"),
        ("expired", "member-0.pem cannot be used: the certificate has expired"),
        ("foreign", "member-0.pem cannot be used: the certificate is not of our authority"),
        ("other key", "cannot use .*member-0.pem for TLS: key values mismatch"),
        ("other name", "is the certificate of member-1, and this is member-0"),
        ("no authority", "cannot use .*authority.pem for TLS"),
    ],
)
def test_bad_new_files_change_nothing(loop: Loop, tmp_path: Path, damage: str, complaint: str) -> None:
    folder = own_copy(tmp_path / "certificates")
    here = Host(loop, files_of("member-0", folder))
    damage_files(folder, damage)
    with pytest.raises(UsageError, match=complaint) as caught:
        here.identity.reload()
    assert "\n" not in str(caught.value)
    client, _ = dial(here, member(loop, 1), "member-1", loop=loop)
    assert client.closed == []


def damage_files(folder: Path, damage: str) -> None:
    certificate, key = folder / "member-0.pem", folder / "member-0.key"
    match damage:
        case "broken":
            certificate.write_text("no certificate", encoding="utf-8")
        case "missing":
            certificate.unlink()
        case "expired":
            shutil.copy(folder / "member-7.pem", certificate)
            shutil.copy(folder / "member-7.key", key)
        case "foreign":
            shutil.copy(folder / "foreign" / "member-0.pem", certificate)
            shutil.copy(folder / "foreign" / "member-0.key", key)
        case "other key":
            shutil.copy(folder / "member-1.key", key)
        case "other name":
            shutil.copy(folder / "member-1.pem", certificate)
            shutil.copy(folder / "member-1.key", key)
        case _:
            (folder / "authority.pem").write_text("", encoding="utf-8")


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"authority": "a", "certificate": "b"}, "tls.key must be the path of a PEM file, not None"),
        ({"authority": "a", "certificate": "b", "key": 5}, "tls.key must be the path of a PEM file, not 5"),
        ({"authority": "a", "certificate": "b", "key": "c", "ca": "d"}, "unknown field tls.ca"),
    ],
)
def test_a_table_that_is_wrong_is_one_line(values: dict[str, object], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        tls_files(values)
    assert tls_files({}) is None


def raw_context(files: TlsFiles | None) -> ssl.SSLContext:
    """A client that is none of ours."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if files is not None:
        context.load_cert_chain(files.certificate, files.key)
    return context


def split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def plain(there: Host) -> socket.socket:
    return socket.create_connection(split(there.network.listen(ANY_PORT, lambda _: Recorder()).address))


def refused_by(there: Host, loop: Loop, context: ssl.SSLContext) -> str:
    """What a client hears from a listener that refuses it."""
    said: list[str] = []
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing)
    with plain(there) as sock:
        sock.setblocking(False)
        for step in (tls.do_handshake, tls.read):
            while not said:
                try:
                    step()
                    break
                except ssl.SSLWantReadError:
                    exchange(sock, incoming, outgoing, loop)
                except ssl.SSLError as error:
                    said.append((error.reason or "").replace("_", " ").lower())
            exchange(sock, incoming, outgoing, loop)
    return said[0]


def exchange(sock: socket.socket, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, loop: Loop) -> None:
    sock.sendall(outgoing.read())
    loop.run_once(0.01)
    try:
        data = sock.recv(65536)
        if data:
            incoming.write(data)
        else:
            incoming.write_eof()
    except BlockingIOError:
        pass
