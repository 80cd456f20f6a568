"""Clients of tests whose service sends more than answers: which message answers, what is news, and many at once."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from support.own_services import SERVICES, importable
from support.valid import require_valid
from upheaval import Cluster, CorrelationAt, NotSent, UsageError, Verdict
from upheaval.checkers.promises import Promise
from upheaval.records import Outcome, call_digest
from upheaval_node.ports import Buffer
from upheaval_node.types import S

BID = struct.Struct("<qq")
RUNTIMES = ("simulated", "process")
BIDS = 110


@contextmanager
def auction(folder: Path, runtime: str) -> Iterator[Cluster]:
    source = SERVICES / "right"
    with importable(source), Cluster("bids:Bids", source, runtime=runtime, folder=folder / "run") as cluster:
        yield cluster


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_right_service_that_broadcasts_is_valid_with_its_correlation_ids(runtime: str, tmp_path: Path) -> None:
    with auction(tmp_path, runtime) as cluster:
        one, other = (cluster.client(timeout_s=5, accepts=CorrelationAt(0)) for _ in range(2))
        for number in range(1, BIDS):
            bid = BID.pack(number, number)
            assert (one, other)[number % 2].request(bid, retries=20) == bid
        cluster.chaos.kill_leader()
        assert BID.unpack(one.request(BID.pack(BIDS, BIDS), retries=20)) == (BIDS, BIDS)
        heard = [BID.unpack(message) for message in one.news()]
        report = cluster.verify()
    assert {number for number, _ in heard} == {0}
    assert len(heard) >= BIDS // 2
    require_valid(report)
    strays = [stray for stray in cluster.run.read_strays() if stray.text is not None]
    assert len(strays) >= len(heard)
    acknowledged = [call for call in cluster.run.read_history() if call.outcome is Outcome.OK]
    assert all(call.matched for call in acknowledged)


def test_without_a_rule_it_is_unknown_and_the_line_says_what_to_do(tmp_path: Path) -> None:
    with auction(tmp_path, "simulated") as cluster:
        client = cluster.client()
        for number in range(1, BIDS):
            client.request(BID.pack(number, number))
        cluster.chaos.kill_leader()
        report = cluster.verify()
    finding = report.finding(Promise.ACKNOWLEDGED_NOT_LOST)
    assert (report.verdict, finding.verdict) == (Verdict.UNKNOWN, Verdict.UNKNOWN), report
    assert "CorrelationAt(offset)" in finding.detail


@pytest.mark.parametrize("runtime", ["simulated", pytest.param("process", marks=pytest.mark.nightly)])
def test_requests_of_several_clients_are_under_way_at_once(runtime: str, tmp_path: Path) -> None:
    with auction(tmp_path, runtime) as cluster:
        clients = [cluster.client(accepts=CorrelationAt(0)) for _ in range(5)]
        for first in range(1, BIDS, len(clients)):
            bids = [(client, BID.pack(first + place, 1)) for place, client in enumerate(clients)]
            answers = cluster.together(*bids, retries=20)
            assert [BID.unpack(answer)[0] for answer in answers] == [first + place for place in range(len(clients))]
        with pytest.raises(UsageError, match="one request under way"):
            cluster.together((clients[0], BID.pack(1, 1)), (clients[0], BID.pack(2, 1)))
        report = cluster.verify()
    calls = list(cluster.run.read_history())
    require_valid(report)
    assert any(one.invoke_ns < other.complete_ns <= one.complete_ns for other, one in pairwise(calls))


def test_a_request_is_tried_again_after_a_wait_and_each_try_is_a_call(tmp_path: Path) -> None:
    with auction(tmp_path, "simulated") as cluster:
        client = cluster.client(timeout_s=0.1, accepts=CorrelationAt(0))
        client.request(BID.pack(1, 1))
        cluster.chaos.kill_leader()
        with pytest.raises(NotSent):
            cluster.client(timeout_s=0.1).request(BID.pack(2, 1))
        assert BID.unpack(client.request(BID.pack(3, 1), retries=20)) == (3, 1)
        cluster.down()
    tries = list(cluster.run.read_history())[2:]
    assert [each.outcome is Outcome.OK for each in tries] == [False] * (len(tries) - 1) + [True]
    assert len(tries) > 1
    assert all(later.invoke_ns - earlier.invoke_ns >= S // 2 for earlier, later in pairwise(tries))


@pytest.mark.parametrize("runtime", ["simulated", pytest.param("process", marks=pytest.mark.nightly)])
def test_what_raises_in_a_request_ends_that_alone_and_the_history_has_each_call(runtime: str, tmp_path: Path) -> None:
    def wrong(message: Buffer) -> bool:
        raise KeyError(bytes(message))

    with auction(tmp_path, runtime) as cluster:
        mistaken, right = cluster.client(accepts=wrong), cluster.client(accepts=CorrelationAt(0))
        with pytest.raises(KeyError):
            mistaken.request(BID.pack(1, 1))
        with pytest.raises(KeyError):
            cluster.together((mistaken, BID.pack(2, 1)), (right, BID.pack(3, 1)))
        with pytest.raises(UsageError):
            cluster.together((right, BID.pack(4, 1)), (cluster.client(accepts=CorrelationAt(99)), BID.pack(5, 1)))
        assert right.request(BID.pack(6, 1)) == BID.pack(6, 1)
        report = cluster.verify()
    assert report.finding(Promise.HISTORY_COMPLETE).verdict is Verdict.VALID, report
    outcomes = {call.value: call.outcome for call in cluster.run.read_history()}
    expected = [Outcome.UNKNOWN, Outcome.UNKNOWN, Outcome.OK]
    assert [outcomes[call_digest(BID.pack(number, 1))] for number in (1, 2, 3)] == expected
    assert outcomes[call_digest(BID.pack(6, 1))] is Outcome.OK
    assert outcomes[call_digest(BID.pack(4, 1))] in (Outcome.FAIL, Outcome.OK)


def test_requests_that_a_shipped_service_refuses_are_counted_with_the_first_reason(tmp_path: Path) -> None:
    with Cluster(runtime="simulated", folder=tmp_path / "run") as cluster:
        client = cluster.client()
        for number in range(3):
            client.request(b"a%d" % number)
        report = cluster.verify()
    finding = report.finding(Promise.ENOUGH_TRAFFIC)
    assert finding.verdict is Verdict.UNKNOWN
    assert "3 requests that the service refused, the first because: request of 2 bytes is shorter" in finding.detail
