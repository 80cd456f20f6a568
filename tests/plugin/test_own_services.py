"""A service of one's own with a bug: the verdict names the promise, the line of the code, and what was not checked."""

import json
from pathlib import Path

import pytest

from upheaval import Cluster, Verdict
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Report
from upheaval_node.trace_kinds import TraceKind

SERVICES = Path(__file__).parents[1] / "support" / "services"
REQUESTS = 120


def run_of(service: str, folder: Path, *, runtime: str = "simulated", requests: int = REQUESTS) -> Cluster:
    """A cluster that got its requests; the one that raises answers none at which it does."""
    cluster = Cluster(f"locks:{service}", SERVICES, runtime=runtime, folder=folder / "run")
    cluster.up()
    client = cluster.client(timeout_s=0.5)
    for number in range(requests):
        if service != "Raising" or (number + 1) % 50:
            client.request(json.dumps({"id": number, "key": f"lock-{number % 7}"}).encode())
        else:
            with pytest.raises(Exception, match="unknown"):
                client.request(json.dumps({"id": number, "key": "lock-0"}).encode())
    return cluster


def raised_of(report: Report) -> tuple[Verdict, str]:
    finding = report.finding(Promise.SERVICES_RAISED_NOTHING)
    return finding.verdict, finding.detail


@pytest.mark.parametrize("runtime", ["simulated", "process"])
def test_what_a_service_raises_breaks_a_promise_and_its_line_is_named(runtime: str, tmp_path: Path) -> None:
    cluster = run_of("Raising", tmp_path, runtime=runtime)
    report = cluster.verify()
    verdict, detail = raised_of(report)
    line = 1 + (SERVICES / "locks.py").read_text().splitlines().index('            raise RuntimeError("half done")')
    assert (report.verdict, verdict) == (Verdict.INVALID, Verdict.INVALID)
    for word in ("RuntimeError: half done", f"locks.py:{line} in take", "2 times", "member-0, member-1, member-2"):
        assert word in detail
    told = [each for each in cluster.run.member(1).read_trace() if each.event == TraceKind.SERVICE_RAISED]
    assert [each.fields["count"] for each in told] == [1, 2]
    assert f'File "locks.py", line {line}, in take' in str(told[0].fields["traceback"])


def test_an_assertion_shows_what_is_broken_and_not_what_is_kept(tmp_path: Path) -> None:
    cluster = run_of("Raising", tmp_path)
    with pytest.raises(AssertionError) as failed:
        cluster.assert_valid()
    lines = str(failed.value).splitlines()
    assert lines[0] == "verdict: invalid"
    assert lines[1].startswith(
        "invalid: services raised nothing: service 0 raised RuntimeError: half done, at locks.py:"
    )
    assert not any(": valid" in line or line.startswith("valid:") for line in lines)
    # pytest cuts a message that is no text at 240 characters.
    assert len(repr(cluster.verify())) <= 240
    assert "half done" in repr(cluster.verify())


def test_a_clock_in_the_state_is_found_by_the_last_snapshot(tmp_path: Path) -> None:
    report = run_of("Timed", tmp_path).verify()
    assert report.finding(Promise.STATES_AGREE).verdict is Verdict.INVALID


def test_a_right_service_is_valid_and_says_what_was_not_checked(tmp_path: Path) -> None:
    report = run_of("Locks", tmp_path).assert_valid()
    assert report.verdict is Verdict.VALID
    whys = {each.promise: each.why for each in report.unchecked}
    assert "calls" in whys[Promise.LINEARIZABLE]
    assert Promise.STATES_AGREE not in whys
    assert [each["promise"] for each in report.to_fields()["not_checked"]] == list(whys)


def test_without_a_snapshot_states_were_not_checked(tmp_path: Path) -> None:
    with Cluster(runtime="simulated", folder=tmp_path / "run") as cluster:
        cluster.workload.wait_for(100)
        report = cluster.assert_valid()
    assert {Promise.STATES_AGREE, Promise.SNAPSHOT_IS_REPLAY} <= {each.promise for each in report.unchecked}
    assert "not checked" in str(report)
