"""A custom service with a bug: the verdict names the promise, the line of the code, and what was not checked."""

import json
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from markupsafe import escape

from support.bad_runs.absent import without_snapshots
from upheaval import Cluster, Verdict
from upheaval.checkers.evidence.recordings import RecordedLog
from upheaval.checkers.judge import verify_run
from upheaval.checkers.own.causes import Cause
from upheaval.checkers.promises import Promise
from upheaval.checkers.states.snapshots import check_snapshots, read_snapshots
from upheaval.checkers.verdict import Finding, Report
from upheaval.cli.main import main
from upheaval.cli.report import write_report
from upheaval.report.logs import last_lines, read_logs
from upheaval.runtimes.simulated.trace import Journal, SimulatedTracer
from upheaval.runtimes.simulated.world import START_EPOCH_MS
from upheaval_node.client.driver import OutcomeUnknown
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import Now, Ns

SERVICES = Path(__file__).parents[1] / "support" / "services"
REQUESTS = 120
NOW = Now(Ns(5), 6)


# The second number is for a request that gets no answer; it also has to suffice for its session.
TIMEOUTS_S = {"simulated": (0.5, 0.5), "process": (240, 20)}


@contextmanager
def run_of(
    service: str, folder: Path, *, module: str = "locks", runtime: str = "simulated", requests: int = REQUESTS
) -> Iterator[Cluster]:
    """A cluster that got its requests; the one that raises answers none at which it does."""
    with Cluster(f"{module}:{service}", SERVICES, runtime=runtime, folder=folder / "run") as cluster:
        patient_s, hasty_s = TIMEOUTS_S[runtime]
        client = cluster.client(timeout_s=patient_s)
        for number in range(requests):
            raises = service == "Raising" and (number + 1) % 50 == 0
            asked = cluster.client(timeout_s=hasty_s) if raises else client
            with pytest.raises(OutcomeUnknown) if raises else nullcontext():
                asked.request(json.dumps({"id": number, "key": f"lock-{number % 7}"}).encode())
        yield cluster


def replayed_without_snapshots(cluster: Cluster) -> Finding:
    """What a replay says of the run when no member has recorded a snapshot."""
    for member_id in cluster.member_ids:
        without_snapshots(cluster.run.path, member_id)
    _, replayed = check_snapshots(cluster.run, cluster.run.read_manifest(), 0, 1 << 60)
    assert isinstance(replayed, Finding)
    return replayed


def raised_of(report: Report) -> tuple[Verdict, str]:
    finding = report.finding(Promise.SERVICES_RAISED_NOTHING)
    return finding.verdict, finding.detail


@pytest.mark.parametrize(("runtime", "times"), [("simulated", 2), ("process", 1)])
def test_what_a_service_raises_breaks_a_promise_and_its_line_is_named(runtime: str, times: int, tmp_path: Path) -> None:
    with run_of("Raising", tmp_path, runtime=runtime, requests=50 * times) as cluster:
        report = cluster.verify()
    verdict, detail = raised_of(report)
    line = 1 + (SERVICES / "locks.py").read_text().splitlines().index('            raise RuntimeError("half done")')
    assert (report.verdict, verdict) == (Verdict.INVALID, Verdict.INVALID)
    for word in ("RuntimeError: half done", f"locks.py:{line} in take", "member-0, member-1, member-2"):
        assert word in detail
    told = [each for each in cluster.run.member(1).read_trace() if each.event == TraceKind.SERVICE_RAISED]
    assert [each.fields["count"] for each in told] == [1, 2][:times]
    assert ("at least 2 times" in detail) is (times == 2)
    assert f'File "locks.py", line {line}, in take' in str(told[0].fields["traceback"])
    page = write_report(cluster.run.path).read_text()
    assert escape(f'File "locks.py", line {line}, in take') in page
    said = [str(each) for each in last_lines(cluster.run, 99) if each.owner == "member-1"]
    assert f'File "locks.py", line {line}, in take' in "\n".join(said)


@pytest.mark.parametrize("runtime", ["simulated", "process"])
def test_what_a_service_logs_is_in_the_run_with_its_time(runtime: str, tmp_path: Path) -> None:
    root = logging.getLogger()
    before = list(root.handlers), root.level
    with run_of("Telling", tmp_path, runtime=runtime, requests=50) as cluster:
        cluster.verify()
    assert (root.handlers, root.level) == before
    for member_id in cluster.member_ids:
        folder = cluster.run.member(member_id)
        starts = [each.fields["epoch_ms"] for each in folder.read_trace() if each.event == TraceKind.PROCESS_START]
        lines = [each for each in read_logs(cluster.run, [member_id]) if each.text.startswith("locks: ")]
        assert [each.level for each in lines] == ["info"] * 50 + ["warning"]
        assert [lines[0].text, lines[-1].text] == ["locks: lock-0 is of 0", "locks: 50 requests"]
        moments = [each.epoch_ms or 0 for each in lines]
        assert moments == sorted(moments)
        assert int(str(starts[0])) <= moments[0]
        if runtime == "simulated":
            assert moments[-1] < START_EPOCH_MS + 3_600_000
    warned = read_logs(cluster.run, level="warning")
    assert [each.text for each in warned if each.text.startswith("locks")] == ["locks: 50 requests"] * 3


def test_what_a_service_logs_is_no_part_of_the_digest() -> None:
    journal = Journal()
    tracer = SimulatedTracer(journal, member_id=0, component="all", incarnation=1)
    tracer.emit(NOW, TraceKind.ROLE, new="LEADER")
    before = journal.digest().hexdigest()
    tracer.emit(NOW, TraceKind.LOG, level="info", logger="locks", text=f"{object()}")
    assert (journal.digest().hexdigest(), len(journal.lines[0])) == (before, 2)
    tracer.emit(NOW, TraceKind.ROLE, new="FOLLOWER")
    assert journal.digest().hexdigest() != before


def test_an_assertion_shows_what_is_broken_and_not_what_is_kept(tmp_path: Path) -> None:
    with run_of("Raising", tmp_path) as cluster, pytest.raises(AssertionError) as failed:
        cluster.assert_valid()
    lines = str(failed.value).splitlines()
    assert lines[0] == "verdict: invalid"
    assert lines[1].startswith(
        "invalid: services raised no errors: service 0 raised RuntimeError: half done, at locks.py:"
    )
    assert not any(": valid" in line or line.startswith("valid:") for line in lines)
    # pytest cuts a message that is no text at 240 characters.
    assert len(repr(cluster.verify())) <= 240
    assert "half done" in repr(cluster.verify())


def test_a_clock_in_the_state_is_found_by_the_last_snapshot(tmp_path: Path) -> None:
    with run_of("Timed", tmp_path) as cluster:
        report = cluster.verify()
    assert report.finding(Promise.STATES_AGREE).verdict is Verdict.INVALID


def test_a_right_service_is_valid_and_says_what_was_not_checked(tmp_path: Path) -> None:
    with run_of("Locks", tmp_path) as cluster:
        report = cluster.assert_valid()
    assert report.verdict is Verdict.VALID
    whys = {each.promise: each.why for each in report.unchecked}
    detail = report.finding(Promise.LINEARIZABLE).detail
    assert detail == f"{REQUESTS} answers of calls are those of a replay of locks:Locks in the order of the log"
    assert Promise.STATES_AGREE not in whys
    assert [each["promise"] for each in report.to_fields()["not_checked"]] == list(whys)
    unseen = replayed_without_snapshots(cluster)
    assert unseen.verdict is Verdict.VALID
    assert "copies that begin with a snapshot at 9 places do what a replay does" in unseen.detail


@pytest.mark.parametrize("service", ["AnswersTime", "AnswersRandom", "AnswersFromCache"])
def test_an_answer_that_the_log_does_not_give_is_found_at_its_request(service: str, tmp_path: Path) -> None:
    with run_of(service, tmp_path) as cluster:
        report = cluster.verify()
    finding = report.finding(Promise.LINEARIZABLE)
    first = next(each for each in cluster.run.read_history() if each.key == "request")
    assert (finding.verdict, finding.operation) == (Verdict.INVALID, first.id)
    assert f"(operation {first.id}) at position {finding.position}, " in finding.detail
    assert 'expected {"id": 0, "answer": ' in finding.detail
    assert 'got {"id": 0, "answer": ' in finding.detail


def test_a_service_is_asked_once_more_in_open_sessions_only(tmp_path: Path) -> None:
    with Cluster("locks:Seated", SERVICES, runtime="simulated", folder=tmp_path / "run") as cluster:
        for client in (cluster.client(), cluster.client()):
            for _ in range(REQUESTS // 2):
                client.request(b"{}")
            client.close()
        report = cluster.verify()
    assert report.verdict is Verdict.VALID, report


def test_without_a_snapshot_states_were_not_checked(tmp_path: Path) -> None:
    with Cluster(runtime="simulated", folder=tmp_path / "run") as cluster:
        cluster.workload.wait_for(100)
        report = cluster.assert_valid()
    assert {Promise.STATES_AGREE, Promise.SNAPSHOT_IS_REPLAY} <= {each.promise for each in report.unchecked}
    assert "not checked" in str(report)


@pytest.mark.parametrize(
    ("service", "says"),
    [
        ("Forgetful", "the snapshot does not hold all of the state"),
        ("Silent", "the snapshot does not hold all of the state"),
        ("Hashed", "a fresh copy of the service that reads the whole log, with another hash seed"),
        ("Passing", "two replays of the log, one of them with another hash seed"),
    ],
)
def test_a_state_that_is_not_what_the_log_and_the_snapshot_give_is_found(
    service: str, says: str, tmp_path: Path
) -> None:
    """All members of the simulation are wrong alike."""
    with run_of(service, tmp_path) as cluster:
        report = cluster.verify()
    agreeing = [each.verdict for each in report.findings if each.promise == Promise.STATES_AGREE]
    # States of no bytes are not compared.
    assert agreeing == ([] if service == "Silent" else [Verdict.VALID])
    finding = report.finding(Promise.SNAPSHOT_IS_REPLAY)
    assert finding.verdict is Verdict.INVALID
    assert says in finding.detail
    assert replayed_without_snapshots(cluster).verdict is Verdict.INVALID


@pytest.mark.parametrize(
    ("service", "cause", "differs"),
    [
        ("locks:Hashed", Cause.HASH_SEED, "['holders']['lock-0'] is "),
        ("conditioned:Alike", Cause.HASH_SEED, "['holders']['lock-0'] is "),
        ("conditioned:Dated", Cause.CLOCK, "['holders']['lock-0'] is 2001 in {} and 1999 in {}"),
        ("conditioned:Booted", Cause.CLOCK, "['holders']['lock-0'] is false in {} and true in {}"),
        ("conditioned:Zoned", Cause.LOCALE, "['holders']['lock-0'] is \"00:00\" in {} and \"05:45\" in {}"),
        ("conditioned:Configured", Cause.ENVIRONMENT, 'is "9" in {} and "none" in {}'),
        ("conditioned:Placed", Cause.DIRECTORY, "is true in {} and false in {}"),
        ("conditioned:Addressed", Cause.ADDRESSES, None),
        ("conditioned:Drawn", Cause.RANDOM, "['holders']['lock-0'] is 0."),
        ("conditioned:Shared", Cause.INSTANCES, "['holders']['lock-0'] is 1 in {} and 121 in {}"),
        ("conditioned:Signed", Cause.ROLE, "['holders']['lock-0'] is -1 in {} and 7 in {}"),
        ("conditioned:Busy", Cause.BACKGROUND, ""),
        ("conditioned:Numbered", Cause.EACH_REPLAY, None),
        ("conditioned:Filed", Cause.OUTSIDE, None),
    ],
)
def test_why_a_state_is_not_what_the_log_gives_is_found(
    service: str, cause: Cause, differs: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPHEAVAL_TEST_LIMIT", "9")
    monkeypatch.setenv("HOME", str(tmp_path))
    limit = tmp_path / "limit"
    limit.write_text("1")
    module, _, name = service.partition(":")
    with run_of(name, tmp_path, module=module) as cluster:
        limit.write_text("2")
        report = cluster.verify()
    finding = report.finding(Promise.SNAPSHOT_IS_REPLAY)
    assert finding.verdict is Verdict.INVALID
    assert "a replay of the log gives another state" in finding.detail
    explained = [each.explanation for each in report.findings if each.explanation is not None]
    assert [each.causes for each in explained] == [(cause,)]
    if differs is not None:
        assert explained[0].entry.startswith("the message '{" if cause is not Cause.BACKGROUND else "")
        assert differs.format(*cause.replays) in explained[0].difference
    assert f"  {cause.sentence}\n" in str(report)


def test_the_first_entry_after_which_states_differ_is_found_wherever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPHEAVAL_TEST_LIMIT", "9")
    with run_of("Late", tmp_path, module="conditioned") as cluster:
        report = cluster.verify()
    explanation = report.finding(Promise.SNAPSHOT_IS_REPLAY).explanation
    assert explanation is not None
    assert explanation.causes == (Cause.ENVIRONMENT,)
    assert explanation.entry == """the message '{"id": 70, "key": "lock-0"}' of session 1"""
    line = 1 + (SERVICES / "conditioned.py").read_text().splitlines().index(
        "            self.holders[key] = int(self.holders[key])"
    )
    raised = "raises ValueError: invalid literal for int() with base 10: 'none', at conditioned.py"
    assert explanation.results == ("""'{"id": 70, "requests": 71}'""", f"{raised}:{line} in take")
    whole, changed = "the replay of the whole log", "the one that changes the environment variables"
    assert f"['holders']['lock-0'] is 9 in {whole} and \"none\" in {changed}" in explanation.difference


def test_why_is_said_wherever_a_run_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with run_of("Hashed", tmp_path) as cluster, pytest.raises(AssertionError) as failed:
        cluster.assert_valid()
    sentence = Cause.HASH_SEED.sentence
    assert sentence in str(failed.value)
    assert escape(sentence) in write_report(cluster.run.path).read_text()
    assert main(["verify", str(cluster.run.path)]) == 1
    assert sentence in capsys.readouterr().out
    assert main(["verify", str(cluster.run.path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["promises"]
    (explained,) = [each["explanation"] for each in told if "explanation" in each]
    assert explained["causes"] == [Cause.HASH_SEED]
    assert explained["sentences"][0] == sentence
    first = next(RecordedLog(cluster.run.member(0)).messages())[0]
    assert explained["position"] > first
    assert explained["results"] == ['\'{"id": 0, "requests": 1}\''] * 2


@pytest.mark.heavy
@pytest.mark.parametrize(("service", "verdict"), [("Ordered", Verdict.VALID), ("Broken", Verdict.INVALID)])
def test_the_form_that_a_service_names_is_what_is_compared(service: str, verdict: Verdict, tmp_path: Path) -> None:
    """Members have hash seeds of their own."""
    with run_of(service, tmp_path, module="conditioned", runtime="process") as cluster:
        report = cluster.verify()
    states = {each.hash for each in read_snapshots(cluster.run, cluster.run.read_manifest()).services}
    assert len(states) > 1
    for promise in (Promise.STATES_AGREE, Promise.SNAPSHOT_IS_REPLAY):
        assert report.finding(promise).verdict is verdict
    detail = report.finding(Promise.SNAPSHOT_IS_REPLAY).detail
    assert ("states are compared as they are: the canonical form raises ValueError" in detail) is (service == "Broken")


def test_what_does_not_decide_about_the_state_is_no_matter(tmp_path: Path) -> None:
    with run_of("Right", tmp_path, module="conditioned") as cluster:
        report = cluster.assert_valid()
    assert report.finding(Promise.SNAPSHOT_IS_REPLAY).detail.endswith("; 1 states are those of a replay")


def test_a_service_that_does_not_start_elsewhere_is_replayed_where_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPHEAVAL_TEST_LIMIT", "9")
    with run_of("Demanding", tmp_path, module="conditioned") as cluster:
        report = cluster.assert_valid()
    detail = report.finding(Promise.SNAPSHOT_IS_REPLAY).detail
    assert "; 1 states are those of a replay, in the environment and directory of the judge" in detail
    assert "UPHEAVAL_TEST_LIMIT" in detail


def test_the_state_of_a_right_service_is_replayed_and_that_of_changed_code_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    helper, module, other = source / "base_locks.py", source / "kept_locks.py", source / "test_locks.py"
    helper.write_text((SERVICES / "locks.py").read_text())
    module.write_text("from base_locks import Locks\n\n\nclass Kept(Locks):\n    pass\n")
    other.write_text("")
    with Cluster("kept_locks:Kept", source, runtime="simulated", folder=tmp_path / "run") as cluster:
        client = cluster.client()
        for number in range(REQUESTS):
            client.request(json.dumps({"id": number, "key": "lock"}).encode())
        report = cluster.assert_valid()
    assert report.finding(Promise.SNAPSHOT_IS_REPLAY).detail.endswith("; 1 states are those of a replay")

    def again(run: Path) -> str:
        report = verify_run(run)
        whys = [each.why for each in report.unchecked if each.promise is Promise.SNAPSHOT_IS_REPLAY]
        return whys[0] if whys else report.finding(Promise.SNAPSHOT_IS_REPLAY).detail.rpartition("; ")[2]

    def evidence(run: Path) -> str:
        report = verify_run(run)
        assert report.verdict is Verdict.UNKNOWN
        return report.finding(Promise.EVIDENCE_COMPLETE).detail.partition(": judge the run where that code is")[0]

    # Times say nothing: neither those of the code nor that of the manifest, which a copy gets anew.
    os.utime(helper, (time.time() + 100, time.time() + 100))
    other.write_text("assert True\n")
    moved = tmp_path / "moved"
    shutil.copytree(cluster.run.path, moved)
    os.utime(moved / "manifest.json", (0, 0))
    assert again(moved) == again(cluster.run.path) == "1 states are those of a replay"
    helper.write_text(helper.read_text() + "# changed\n")
    os.utime(helper, (0, 0))
    assert again(moved) == again(cluster.run.path) == "states are not replayed: its code was changed since the run"
    assert evidence(moved) == f"the code of kept_locks:Kept in {source} was changed since the run began"
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "kept_locks.py").write_text(module.read_text())
    (checkout / "base_locks.py").write_text(helper.read_text().removesuffix("# changed\n"))
    monkeypatch.chdir(checkout)
    assert again(moved) == "1 states are those of a replay"
    assert verify_run(moved).verdict is Verdict.VALID
    monkeypatch.chdir(tmp_path)
    manifest = moved / "manifest.json"
    fields = json.loads(manifest.read_text())
    del fields["source_digest"]
    manifest.write_text(json.dumps({**fields, "sealed": None}))
    (moved / "seal.json").unlink()
    assert again(moved) == "states are not replayed: the manifest has no digest of its code"
    module.unlink()
    assert evidence(cluster.run.path) == f"the code of kept_locks:Kept in {source} is missing"
    assert again(cluster.run.path) == "states are not replayed: its code was changed since the run"
    assert f"the folder {source} has no module kept_locks: name the one that has it as source" in again(moved)
