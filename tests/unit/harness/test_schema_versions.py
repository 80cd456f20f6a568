"""Logs and snapshots of any schema version from 7 on are judged; what cannot be read makes a run unknown."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.bad_runs import copy_of_good_run
from support.built_runs import BuiltRun, good_run
from support.schema_versions import in_version, rewrite
from upheaval.checkers.evidence.log_messages import OLDEST_VERSION, decode_message, is_session_message
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval_node.errors import DecodeError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.session_header import pack_session_header

OF_HISTORY = (
    Promise.ACKNOWLEDGED_NOT_LOST,
    Promise.APPLIED_ONCE,
    Promise.LINEARIZABLE,
    Promise.HISTORY_COMPLETE,
)


@pytest.mark.parametrize("version", [7, 12, 16])
def test_a_log_of_another_version_is_judged_as_ours(version: int, tmp_path: Path) -> None:
    good_run().write(tmp_path / "ours")
    good_run().write(tmp_path / "theirs")
    assert rewrite(tmp_path / "theirs", version) > 900
    theirs = verify_run(tmp_path / "theirs")
    assert theirs.verdict is Verdict.VALID
    assert theirs.findings == verify_run(tmp_path / "ours").findings


def test_snapshots_of_another_version_are_judged_as_ours(tmp_path: Path) -> None:
    copy_of_good_run("snapshot-and-restart", tmp_path)
    ours = verify_run(tmp_path)
    assert rewrite(tmp_path, 12) > 500
    theirs = verify_run(tmp_path)
    changed = {one.promise for one, other in zip(ours.findings, theirs.findings, strict=True) if one != other}
    assert changed <= {Promise.EVIDENCE_SEALED}, theirs.findings


def too_old(message: bytes) -> bytes:
    return in_version(message, OLDEST_VERSION - 1)


def of_another_schema(message: bytes) -> bytes:
    return in_version(message, 17, 112)


def with_a_longer_header(message: bytes) -> bytes:
    return (32).to_bytes(2, "little") + message[2:]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (too_old, "expected schema version 7 or later, got 6"),
        (of_another_schema, "schema id 112 instead of 111"),
        (with_a_longer_header, "expected a session message header of 24 bytes, got 32"),
    ],
)
@pytest.mark.parametrize("all_of_them", [True, False])
def test_a_log_that_cannot_be_read_is_unknown(
    change: Callable[[bytes], bytes], says: str, tmp_path: Path, *, all_of_them: bool
) -> None:
    built = good_run()
    change_messages(built, change, all_of_them=all_of_them)
    built.write(tmp_path)
    report = verify_run(tmp_path)
    assert report.verdict is Verdict.UNKNOWN
    for promise in OF_HISTORY:
        found = report.finding(promise)
        assert found.verdict is Verdict.UNKNOWN
        assert found.detail.endswith(says)


def change_messages(built: BuiltRun, change: Callable[[bytes], bytes], *, all_of_them: bool) -> None:
    """The messages of sessions, or one of them, on all members alike."""
    first = 40
    for payloads in built.payloads:
        for index in range(first, len(payloads) if all_of_them else first + 1):
            if is_session_message(payloads[index]):
                payloads[index] = change(payloads[index])


def test_a_header_without_its_body_is_no_session_message() -> None:
    whole = pack_session_header(1, 2, 3)
    assert is_session_message(whole)
    assert not is_session_message(whole[:31])
    with pytest.raises(DecodeError):
        decode_message(whole[:31])
    assert decode_message(cm.SCHEMA.encode(cm.SessionKeepAlive(1, 2))) == cm.SessionKeepAlive(1, 2)
