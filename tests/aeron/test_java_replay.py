"""Services in Java read the log of a run again: wrong ones are named without a model, right ones are not accused.

One simulated cluster leaves the log for all of them: it runs `accounts_twin.py`, whose log is that of `kinds.Accounts`.
"""

import json
import re
import shutil
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from aeron_jar import jar
from support.java_kinds import (
    KINDS,
    REQUESTS,
    SERVICES,
    ask_across_failover_and_restart,
    compile_kinds,
    require_right,
)
from support.own_services import importable
from support.stranger import ROOT
from upheaval import Cluster, NotSent, OutcomeUnknown
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.history.placed_calls import place_calls
from upheaval.checkers.judge import judge, verify_run
from upheaval.checkers.own.java_copies import CannotReplayJava, JavaService, Plan
from upheaval.checkers.own.java_service import JavaReplay, replay_java
from upheaval.checkers.own.news import Heard, check_news
from upheaval.checkers.own.own_model import check_own_answers
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import RunFolder, Stray, code_digest

ALL: Final = 1 << 60
_FORGETS: Final = "the snapshot does not hold all of the state"
_LEADS: Final = "a copy that leads "
_NIGHTLY: Final = {"LoadedElsewhere", "RandomAnswer", "LocaleAnswer", "BackgroundState", "MemberInTimer"}
_WRONG: Final = {
    "MissingField": ("a copy that begins with its own snapshot at position ", "#", _FORGETS),
    "ForgottenTimers": ("offers nothing to the log where one that read the whole log offers 'fired ", _FORGETS),
    "NotLoaded": ("a copy that begins with its own snapshot at position ", _FORGETS),
    "PolledOnce": ("a copy that begins with its own snapshot at position ", _FORGETS),
    "LoadedElsewhere": ("sets timer 1 for ", _FORGETS),
    "ForgottenAnswer": (" after ' to session ", _FORGETS),
    "HashOrder": ("writes another snapshot after position ", "balance ", "identity hash codes alone"),
    "ClockInState": ("of session ", "it differs with the clock alone: System.currentTimeMillis"),
    "ClockInAnswer": ("sends '", "it differs with the clock alone"),
    "RandomAnswer": ("sends '", "two replays under equal conditions differ"),
    "LocaleAnswer": ("TİTLE", "it differs with the locale and charset alone"),
    "LeaderState": (_LEADS, "writes another snapshot after position ", "it differs with the role"),
    "LeaderTimer": (_LEADS, "where one that read the whole log sets no timer", "it differs with the role"),
    "LeaderOffer": (_LEADS, "offers 'fired ", "it differs with the role"),
    "BackgroundState": (_LEADS, "logged ", "it differs with the background work"),
    "MemberInTimer": (_LEADS, "sets timer ", "it differs with the member id"),
}


_STARTS: Final = """
public class Starts extends kinds.Accounts {
    @Override
    public void onStart(final io.aeron.cluster.service.Cluster cluster, final io.aeron.Image image) {
        %s
    }
}
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run with requests, timers, messages of the service, a snapshot under load and a failover."""
    folder = tmp_path_factory.mktemp("accounts") / "run"
    with (
        importable(SERVICES),
        Cluster("accounts_twin:Accounts", SERVICES, runtime="simulated", seed=3, folder=folder) as cluster,
    ):
        clients = [cluster.client(), cluster.client()]
        for number in range(REQUESTS):
            name, after_ms = f"n{number % 11}", (400, 40, 2000)[number % 3]
            request = f"later {name} {number} {after_ms}" if number % 5 == 0 else f"add {name} {number}"
            with suppress(NotSent, OutcomeUnknown):
                clients[number % 2].request(request.encode())
            if number == REQUESTS // 2:
                cluster.snapshot()
            if number == REQUESTS * 3 // 4:
                cluster.chaos.kill_leader()
        cluster.verify()
    return RunFolder(folder)


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that has `classes`, of all services."""
    return compile_kinds(tmp_path_factory.mktemp("classes"))


def name_service(run: RunFolder, name: str, source: Path) -> None:
    """The run becomes one of members of Aeron with that class."""
    service = f"classes:kinds.{name}"
    digest = code_digest(str(source), service, "aeron:1.51.0")
    manifest = run.read_manifest()
    run.write_manifest(
        replace(manifest, system="aeron:1.51.0", service=service, source=str(source), source_digest=digest)
    )


def replayed(run: RunFolder, name: str, source: Path) -> JavaReplay:
    name_service(run, name, source)
    return replay_java(run, run.read_manifest(), 0, ALL)


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.nightly) if each in _NIGHTLY else each for each in _WRONG]
)
def test_a_wrong_service_is_named_with_what_it_does_otherwise(name: str, recorded: RunFolder, classes: Path) -> None:
    replay = replayed(recorded, f"Wrong${name}", classes)
    assert replay.why_not == ""
    assert replay.difference is not None
    assert replay.difference.position > 0
    for text in _WRONG[name]:
        assert text in replay.difference.text


def test_the_page_has_each_wrong_service() -> None:
    page = (ROOT / "docs" / "wrong-services.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.partition("## In Java")[2].splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == {*_WRONG, "Raises", "AnswersEarly"}


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("System.exit(0);", "its code cannot be run here: it ends the process"),
        ("java.util.concurrent.locks.LockSupport.park(); onStart(cluster, image);", "its code did not end within 30 s"),
    ],
)
def test_a_replay_leaves_nothing_in_shared_memory_however_it_ends(
    statement: str, why: str, classes: Path, tmp_path: Path
) -> None:
    (tmp_path / "Starts.java").write_text(_STARTS % statement)
    class_path = f"{jar()}:{classes / 'classes'}"
    subprocess.run(["javac", "-cp", class_path, "-d", str(tmp_path), str(tmp_path / "Starts.java")], check=True)
    before = set(Path("/dev/shm").iterdir())
    service = JavaService(f"{tmp_path}:{classes / 'classes'}:Starts", str(classes), "1.51.0")
    with pytest.raises(CannotReplayJava, match=why):
        service.play([], [Plan()], timeout_s=30)
    left = set(Path("/dev/shm").iterdir()) - before
    assert [path for path in left if path.name.startswith(("aeron-", "upheaval-replay"))] == []


@pytest.mark.parametrize("name", ["News", "Parcels"])
def test_a_right_service_is_not_accused(name: str, recorded: RunFolder, classes: Path) -> None:
    replay = replayed(recorded, name, classes)
    assert (replay.why_not, replay.difference) == ("", None)
    assert replay.cuts == 9


def test_a_service_that_cannot_be_replayed_is_not_valid(recorded: RunFolder, classes: Path, tmp_path: Path) -> None:
    source = Path(shutil.copytree(classes, tmp_path / "source"))
    name_service(recorded, "Accounts", source)
    (source / "classes" / "kinds" / "News.class").unlink()
    why = "its class path was changed since the run"
    unchecked = {each.promise: each.why for each in verify_run(recorded.path).unchecked}
    assert unchecked[Promise.SNAPSHOT_IS_REPLAY] == f"states are not replayed: {why}"
    assert unchecked[Promise.LINEARIZABLE] == f"no answer of calls was judged: {why}"
    manifest = recorded.read_manifest()
    recorded.write_manifest(replace(manifest, demanded=(Promise.SNAPSHOT_IS_REPLAY,)))
    demanded = verify_run(recorded.path).finding(Promise.SNAPSHOT_IS_REPLAY)
    assert (demanded.verdict, demanded.detail) == (Verdict.UNKNOWN, f"not checked: states are not replayed: {why}")
    recorded.write_manifest(manifest)
    assert replayed(recorded, "Missing", source).why_not.startswith("its code cannot be run here: replay: the class ")
    shutil.rmtree(source)
    assert replay_java(recorded, recorded.read_manifest(), 0, ALL).why_not == "its code is missing"


def test_snapshots_and_answers_of_members_are_compared_with_the_replay(recorded: RunFolder, classes: Path) -> None:
    name_service(recorded, "Accounts", classes)
    evidence = Evidence(recorded)
    report = judge(evidence)
    finding = report.finding(Promise.SNAPSHOT_IS_REPLAY)
    assert finding.verdict is Verdict.VALID, finding.detail
    assert "states are those of a replay, and copies from 9 snapshots do as it does" in finding.detail
    answers = report.finding(Promise.LINEARIZABLE)
    assert answers.verdict is Verdict.VALID, answers.detail
    assert " answers of calls are those of a replay of classes:kinds.Accounts in the order " in answers.detail
    # One answer as of a leader that keeps something outside of the log.
    stale = [replace(call, result="n0 7 #1") if call.result == "n0 0 #1" else call for call in evidence.calls]
    log = evidence.whole_log
    assert log is not None
    placed = place_calls(stale, log.calls)
    named = check_own_answers(recorded, evidence.manifest, stale, placed, log.calls, 0, ALL, evidence.java_replay)
    assert isinstance(named, Finding), named
    assert named.verdict is Verdict.INVALID
    asked = "'later n0 0 400': expected 'n0 0 #1' by a replay of classes:kinds.Accounts, got 'n0 7 #1'"
    assert asked in named.detail


def test_copies_that_have_too_little_memory_together_accuse_nothing(recorded: RunFolder, classes: Path) -> None:
    replay = replayed(recorded, "Hungry", classes)
    assert replay.difference is None
    assert "its copies need more memory together: Java heap space" in replay.why_not


@pytest.mark.parametrize(
    ("start", "verdict", "says"),
    [
        ({"jvm": "-Xmx64m -Dkinds.scale=1 -Daeron.dir=/none"}, Verdict.VALID, "copies from 9 snapshots do as it does"),
        ({"jvm": "-Xmx64m"}, Verdict.INVALID, "copies of the service that read the whole log come to "),
        ({"launcher": "java Main 1"}, Verdict.UNKNOWN, "its launcher may start it with options or arguments that "),
    ],
)
def test_copies_have_the_properties_that_members_have(
    start: dict[str, str], verdict: Verdict, says: str, recorded: RunFolder, classes: Path, tmp_path: Path
) -> None:
    run = RunFolder(Path(shutil.copytree(recorded.path, tmp_path / "run")))
    name_service(run, "Scaled", classes)
    (run.path / "cluster.json").write_text(json.dumps({"jvm": "", "launcher": "", **start}), encoding="utf-8")
    report = verify_run(run.path)
    finding = report.finding(Promise.SNAPSHOT_IS_REPLAY)
    assert finding.verdict is verdict, finding.detail
    assert says in finding.detail
    if verdict is Verdict.UNKNOWN:
        (answers,) = (each for each in report.unchecked if each.promise is Promise.LINEARIZABLE)
        assert says in answers.why
    else:
        assert report.finding(Promise.LINEARIZABLE).verdict is verdict


@pytest.mark.parametrize(("launcher", "verdict"), [("java Main 1", Verdict.UNKNOWN), ("", Verdict.INVALID)])
def test_a_launcher_explains_a_snapshot_that_aeron_itself_does_not_come_to(
    launcher: str, verdict: Verdict, recorded: RunFolder, classes: Path, tmp_path: Path
) -> None:
    run = RunFolder(Path(shutil.copytree(recorded.path, tmp_path / "run")))
    name_service(run, "NeedsModule$Scaled", classes)
    (run.path / "cluster.json").write_text(json.dumps({"launcher": launcher}), encoding="utf-8")
    finding = verify_run(run.path).finding(Promise.SNAPSHOT_IS_REPLAY)
    assert finding.verdict is verdict, finding.detail
    assert "a member of Aeron alone that begins with the last snapshot " in finding.detail
    assert ("its launcher may start it with options" in finding.detail) is bool(launcher)


def test_options_that_no_shell_could_parse_are_named(recorded: RunFolder, classes: Path, tmp_path: Path) -> None:
    run = RunFolder(Path(shutil.copytree(recorded.path, tmp_path / "run")))
    (run.path / "cluster.json").write_text(json.dumps({"jvm": "'-Dname=x"}), encoding="utf-8")
    why = replayed(run, "Accounts", classes).why_not
    assert why == 'cluster.json: jvm "\'-Dname=x": No closing quotation'


def test_a_service_that_copies_cannot_drive_runs_in_aeron_itself(recorded: RunFolder, classes: Path) -> None:
    name_service(recorded, "NeedsModule", classes)
    finding = verify_run(recorded.path).finding(Promise.SNAPSHOT_IS_REPLAY)
    assert finding.verdict is Verdict.VALID, finding.detail
    for text in ("a member of Aeron alone does the same from the last snapshot", "no consensus module"):
        assert text in finding.detail


def test_a_state_that_is_not_loaded_is_named_by_aeron_itself(recorded: RunFolder, classes: Path) -> None:
    replay = replayed(recorded, "NeedsModule$NotLoaded", classes)
    assert replay.difference is not None, replay.why_not
    assert replay.difference.position > 0
    for text in ("a member of Aeron alone that begins with the last snapshot sends '", "asked again", _FORGETS):
        assert text in replay.difference.text


def test_news_of_a_java_service_are_those_of_the_log(recorded: RunFolder, classes: Path) -> None:
    """A session that heard all, then one in another order, once more, something else; last, code that does not run."""
    replay = replayed(recorded, "News", classes)
    manifest = recorded.read_manifest()
    session, texts = max(replay.egress.as_follower.items(), key=lambda each: len(each[1]))
    news = [text for text, _ in texts if text.startswith("news of ")]
    assert len(news) > REQUESTS // 2

    def judged(*heard: str, by: JavaReplay = replay) -> Finding | str:
        strays = [Stray(session, number, text=text) for number, text in enumerate(heard)]
        return check_news(recorded, manifest, Heard((), strays), 0, ALL, has_faults=True, java=lambda: by)

    right = judged(*news)
    assert isinstance(right, Finding), right
    assert (right.verdict, right.promise) == (Verdict.VALID, Promise.ANSWERED_ONCE)
    wrong = {
        (news[1], news[0]): "and a replay sends it at position ",
        (*news, news[-1]): "heard 'news of ",
        ("news of 7: nothing",): "which a replay of the log does not send to it",
    }
    for heard, says in wrong.items():
        finding = judged(*heard)
        assert isinstance(finding, Finding), finding
        assert (finding.verdict, finding.promise) == (Verdict.INVALID, Promise.ANSWERED_ONCE)
        assert says in finding.detail
    (classes / "classes" / "kinds" / "Other.class").write_bytes(b"")
    changed = judged(*news, by=replay_java(recorded, manifest, 0, ALL))
    (classes / "classes" / "kinds" / "Other.class").unlink()
    assert changed == "what sessions heard is not replayed: its class path was changed since the run"


@pytest.mark.nightly
def test_what_members_of_aeron_do_otherwise_at_each_replay_is_not_checked(recorded: RunFolder, classes: Path) -> None:
    replay = replayed(recorded, "NeedsModule$RandomAnswer", classes)
    assert replay.difference is None
    assert "no consensus module" in replay.why_not
    assert "two replays of the whole log by Aeron itself differ: one sends '" in replay.why_not


@pytest.mark.parametrize("name", [pytest.param("AtRequests", marks=pytest.mark.nightly), "AsLeader"])
def test_a_service_that_raises_in_copies_alone_runs_in_aeron_itself(
    name: str, recorded: RunFolder, classes: Path
) -> None:
    replay = replayed(recorded, f"NeedsModule${name}", classes)
    assert (replay.why_not, replay.difference) == ("", None)
    assert replay.by_aeron.endswith("which no member did")


def test_an_answer_before_the_change_is_named_by_a_model(classes: Path, tmp_path: Path) -> None:
    """Every replay answers so, too."""
    run = tmp_path / "run"
    options = {"runtime": "simulated", "model": "accounts_twin:Balances", "folder": run}
    with importable(SERVICES), Cluster("accounts_twin:AnswersEarly", SERVICES, **options) as cluster:  # type: ignore[arg-type]
        client = cluster.client()
        for number in range(40):
            client.request(f"add n{number % 3} {number + 1}".encode())
        cluster.verify()
        name_service(RunFolder(run), "Wrong$AnswersEarly", classes)
        report = verify_run(run)
    assert report.finding(Promise.SNAPSHOT_IS_REPLAY).verdict is Verdict.VALID, report
    finding = report.finding(Promise.LINEARIZABLE)
    assert finding.verdict is Verdict.INVALID
    assert "add n0 1: expected n0 1 #1 by the model accounts_twin:Balances, got n0 0 #1" in finding.detail


@pytest.mark.heavy
def test_an_exception_is_named_with_its_line(classes: Path, tmp_path: Path) -> None:
    service = "classes:kinds.Wrong$Raises"
    with Cluster(service, classes, system="aeron", members=1, folder=tmp_path / "run") as cluster:
        client = cluster.client(timeout_s=3)
        for _ in range(3):
            client.request(b"add ann 1", retries=40)
        finding = cluster.verify().finding(Promise.SERVICES_RAISED_NOTHING)
    assert finding.verdict is Verdict.INVALID, finding
    for text in ("IllegalStateException: no account ann, at Wrong.java:", " in add, in onSessionMessage at position "):
        assert text in finding.detail


@pytest.mark.heavy
@pytest.mark.nightly
@pytest.mark.parametrize("name", KINDS)
def test_a_right_service_of_each_kind_is_not_accused_on_members(name: str, classes: Path, tmp_path: Path) -> None:
    service = f"classes:kinds.{name}"
    with Cluster(service, classes, system="aeron", witnesses=True, folder=tmp_path / "run") as cluster:
        require_right(ask_across_failover_and_restart(cluster))
