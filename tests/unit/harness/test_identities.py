"""Promises of a cluster with authentication, on run folders made by hand: good ones, and each way to be bad."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.built_runs import BuiltRun, good_run
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.protocol.identities import SECURITY_FILE
from upheaval.checkers.verdict import Verdict
from upheaval.errors import UsageError
from upheaval.records import ConnectAnswer, ConnectAttempt, RunFolder, WrongCredentials
from upheaval_node.protocol import cluster_messages as cm

OURS = "our authority"


def opening(session_id: int, principal: bytes) -> bytes:
    event = cm.SessionOpenEvent(
        cluster_session_id=session_id, response_channel="aeron:ipc", encoded_principal=principal, timestamp=1
    )
    return cm.SCHEMA.encode(event)


def line(member: int, event: str, **fields: object) -> str:
    return json.dumps({"ts": 1, "member": member, "component": "all", "event": event, **fields})


def with_identities() -> BuiltRun:
    """A good run with one session of alice and one of bob, and with a connection of each member to the next."""
    run = good_run()
    for payloads in run.payloads:
        payloads[1:1] = [opening(1, b"alice"), opening(2, b"bob")]
    run.operations.clear()
    for payloads in run.payloads:
        del payloads[3:]
    for member, trace in enumerate(run.traces):
        peer = f"member-{(member + 1) % 3}"
        trace[:0] = [
            line(member, "process-start"),
            line(member, "certificates-read", name=f"member-{member}", not_after="later"),
            line(member, "tls-peer", name=peer, peer="h:1", dialled=True, authority=OURS),
        ]
    return run


def judged(run: BuiltRun, folder: Path, **policy: object) -> dict[str, tuple[Verdict, str]]:
    path = run.write(folder / "run").path
    fields = {"principals": ["alice", "bob"], "authorities": [OURS], **policy}
    (path / SECURITY_FILE).write_text(json.dumps(fields), encoding="utf-8")
    return {finding.promise: (finding.verdict, finding.detail) for finding in verify_run(path).findings}


def test_a_run_with_nobody_else_in_it_keeps_both_promises(tmp_path: Path) -> None:
    found = judged(with_identities(), tmp_path)
    sure = "2 sessions, all of 2 principals of the credentials file; no client tried with wrong ones"
    assert found[Promise.ONLY_CREDENTIALS] == (Verdict.VALID, sure)
    assert found[Promise.ONLY_AUTHORITY] == (Verdict.VALID, "3 connections, with member-0, member-1, member-2")


def without_connections() -> BuiltRun:
    run = with_identities()
    for trace in run.traces:
        trace.pop(2)
    return run


def test_what_was_not_asked_for_is_not_judged(tmp_path: Path) -> None:
    found = judged(with_identities(), tmp_path / "a", principals=None)
    assert (Promise.ONLY_CREDENTIALS in found, Promise.ONLY_AUTHORITY in found) == (False, True)
    found = judged(without_connections(), tmp_path / "b", principals=None, authorities=None)
    assert (Promise.ONLY_CREDENTIALS in found, Promise.ONLY_AUTHORITY in found) == (False, False)


def test_connections_over_tls_without_authorities_are_unknown(tmp_path: Path) -> None:
    found = judged(with_identities(), tmp_path, authorities=None)
    detail = "member-0/trace.jsonl:3 is a connection over TLS, and security.json has no authorities"
    assert found[Promise.ONLY_AUTHORITY] == (Verdict.UNKNOWN, detail)


@pytest.mark.parametrize("fields", [{}, {"principals": None, "authorities": None}])
def test_an_empty_policy_of_a_cluster_that_began_with_one_is_unknown(fields: dict[str, None], tmp_path: Path) -> None:
    run = without_connections()
    run.manifest = replace(run.manifest, written=(SECURITY_FILE,))
    path = run.write(tmp_path / "run").path
    (path / SECURITY_FILE).write_text(json.dumps(fields), encoding="utf-8")
    found = {finding.promise: finding for finding in verify_run(path).findings}
    detail = "security.json has neither principals nor authorities, and was written for one of them"
    for promise in (Promise.ONLY_CREDENTIALS, Promise.ONLY_AUTHORITY):
        assert (found[promise].verdict, found[promise].detail) == (Verdict.UNKNOWN, detail)


@pytest.mark.parametrize(("principal", "who"), [(b"mallory", "for 'mallory', who"), (b"", "without a name, which")])
def test_a_session_of_somebody_else_breaks_the_promise(tmp_path: Path, principal: bytes, who: str) -> None:
    run = with_identities()
    for payloads in run.payloads:
        payloads[2] = opening(7, principal)
    verdict, detail = judged(run, tmp_path)[Promise.ONLY_CREDENTIALS]
    assert verdict is Verdict.INVALID
    assert detail.startswith("session 7 opened at position ")
    assert f" {who} is not in the credentials file" in detail


REFUSED = [ConnectAttempt(shown, ConnectAnswer.REFUSED, 1) for shown in WrongCredentials]


def tried(attempts: list[ConnectAttempt], folder: Path) -> tuple[Verdict, str]:
    for attempt in attempts:
        RunFolder(folder / "run").add_attempt(attempt)
    return judged(with_identities(), folder)[Promise.ONLY_CREDENTIALS]


def test_wrong_credentials_of_every_kind_were_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    verdict, detail = tried([*REFUSED, ConnectAttempt(WrongCredentials.NAME, ConnectAnswer.NONE, 2)], tmp_path)
    assert (verdict, detail.split("; ")[1]) == (Verdict.VALID, "refused 3 times to those with wrong ones")


@pytest.mark.parametrize(
    ("shown", "what"),
    [
        (WrongCredentials.SECRET, "a wrong secret of a known user"),
        (WrongCredentials.NAME, "an unknown name"),
        (WrongCredentials.NOTHING, "no credentials"),
    ],
)
def test_who_was_let_in_with_wrong_credentials_breaks_the_promise(
    tmp_path: Path, shown: WrongCredentials, what: str
) -> None:
    (tmp_path / "run").mkdir()
    found = tried([*REFUSED, ConnectAttempt(shown, ConnectAnswer.ADMITTED, 2)], tmp_path)
    assert found == (Verdict.INVALID, f"attempts.jsonl: a client that showed {what} was let in")


@pytest.mark.parametrize("left_out", WrongCredentials)
def test_a_kind_that_nobody_answered_leaves_it_unknown(tmp_path: Path, left_out: WrongCredentials) -> None:
    (tmp_path / "run").mkdir()
    attempts = [replace(each, answer=ConnectAnswer.NONE) if each.shown is left_out else each for each in REFUSED]
    verdict, detail = tried(attempts, tmp_path)
    assert (verdict, detail.startswith("no member answered to ")) == (Verdict.UNKNOWN, True)


def change(member: int, index: int, **fields: object) -> Callable[[list[list[str]]], None]:
    def apply(traces: list[list[str]]) -> None:
        traces[member][index] = json.dumps({**json.loads(traces[member][index]), **fields})

    return apply


@pytest.mark.parametrize(
    ("break_it", "detail"),
    [
        (change(1, 2, authority="theirs"), "member-1/trace.jsonl:3: 'member-2' is of 'theirs', not of our authority"),
        (change(2, 1, name="member-0"), "member-2/trace.jsonl:2: it is 'member-0'"),
        (lambda traces: traces[0].pop(1), "member-0/trace.jsonl:2: it had no certificate when it took part"),
        (
            lambda traces: traces[0].extend([traces[0][0], traces[0][2]]),
            "member-0/trace.jsonl:7: it had no certificate when it took part",
        ),
    ],
    ids=["authority", "name", "never read", "not read after a restart"],
)
def test_a_connection_of_somebody_else_breaks_the_promise(
    tmp_path: Path, break_it: Callable[[list[list[str]]], None], detail: str
) -> None:
    run = with_identities()
    break_it(run.traces)
    assert judged(run, tmp_path)[Promise.ONLY_AUTHORITY] == (Verdict.INVALID, detail)


def test_a_log_without_sessions_leaves_it_unknown(tmp_path: Path) -> None:
    run = with_identities()
    for payloads in run.payloads:
        del payloads[1:3]
    found = judged(run, tmp_path)
    assert found[Promise.ONLY_CREDENTIALS] == (Verdict.UNKNOWN, "no session was opened at all")


def test_a_member_without_connections_leaves_it_unknown(tmp_path: Path) -> None:
    run = with_identities()
    run.traces[1].pop(2)
    assert judged(run, tmp_path)[Promise.ONLY_AUTHORITY] == (Verdict.UNKNOWN, "member 1 had no connections at all")


@pytest.mark.parametrize("principals", ["alice", [5], {}])
def test_a_malformed_file_is_one_line(tmp_path: Path, principals: object) -> None:
    with pytest.raises(UsageError, match=r"security\.json: field 'principals' must be a list of texts"):
        judged(with_identities(), tmp_path, principals=principals)
