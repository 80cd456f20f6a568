"""A custom service with a bug that its answers alone show: its model and its promises find it."""

import json
from contextlib import suppress
from pathlib import Path

import pytest

from support.valid import require_valid
from upheaval import Cluster, NotSent, OutcomeUnknown, UsageError, Verdict
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import OwnPromise, Promise
from upheaval.checkers.verdict import Report

SERVICES = Path(__file__).parents[1] / "support" / "services"
pytestmark = pytest.mark.usefixtures("shared")

REQUESTS = 120


def asked(number: int) -> bytes:
    do = ("acquire", "holder", "release", "acquire", "release", "holder")[number % 6]
    fields = {"id": f"r{number}", "do": do, "lock": f"lock-{number // 6 % 3}", "who": f"c{number}"}
    return json.dumps(fields).encode()


def run_of(service: str, folder: Path, model: str, *, runtime: str = "simulated", kills: bool = False) -> Report:
    """A client that asks every thirtieth time again, as one does that got no answer, and another one between."""
    with Cluster(f"fenced:{service}", SERVICES, runtime=runtime, folder=folder / "run", model=model) as cluster:
        client, other = cluster.client(timeout_s=5), cluster.client(timeout_s=5)
        for number in range(REQUESTS):
            if kills and number == REQUESTS // 2:
                cluster.chaos.kill_leader()
            for attempt in (client, other)[: 1 + (number % 30 == 0)]:
                with suppress(NotSent, OutcomeUnknown):
                    attempt.request(asked(number))
        return cluster.verify()


@pytest.mark.parametrize(
    ("service", "says"),
    [
        ("LostUpdate", '"do": "release"'),
        ("StaleRead", 'expected {"holder": null} by the model fenced_model:Locks, got {"holder": "c0"}'),
        ("Twice", 'expected {"ok": true, "token": 1} by the model fenced_model:Locks, got {"ok": false}'),
    ],
)
def test_only_the_model_finds_what_is_wrong_on_all_members_alike(service: str, says: str, tmp_path: Path) -> None:
    report = run_of(service, tmp_path, "fenced_model:Locks")
    broken = {each.promise: each for each in report.findings if each.verdict is not Verdict.VALID}
    assert broken.keys() == {Promise.LINEARIZABLE}
    assert broken[Promise.LINEARIZABLE].verdict is Verdict.INVALID
    assert says in broken[Promise.LINEARIZABLE].detail
    # Later, from the folder alone.
    assert verify_run(tmp_path / "run").findings == report.findings


@pytest.mark.parametrize("runtime", ["simulated", pytest.param("process", marks=pytest.mark.nightly)])
def test_a_right_service_stays_valid_over_the_death_of_its_leader(runtime: str, tmp_path: Path) -> None:
    report = run_of("Fenced", tmp_path, "fenced_model:Locks", runtime=runtime, kills=True)
    require_valid(report)
    assert report.finding(Promise.LINEARIZABLE).detail.startswith("12" if runtime == "simulated" else "1")


def test_a_service_is_a_model_of_itself(tmp_path: Path) -> None:
    require_valid(run_of("Fenced", tmp_path, "fenced:Fenced"))


def test_a_promise_of_ones_own_is_broken_by_its_name(tmp_path: Path) -> None:
    report = run_of("Repeating", tmp_path, "fenced_promises")
    broken = [each.promise for each in report.findings if each.verdict is not Verdict.VALID]
    assert broken == [OwnPromise.of("a fencing token is never given twice")]
    assert "token 30 after 30 (" in report.finding(broken[0]).detail


@pytest.mark.parametrize(
    ("service", "model", "says"),
    [
        ("fenced:Fenced", "fenced_model:Nobody", "module fenced_model has no class 'Nobody'"),
        ("fenced:Fenced", "nowhere", "No module named 'nowhere'"),
        ("fenced:Fenced", "fenced:json", "json is not a class"),
        ("workbench", "fenced_model:Locks", "a model is for a custom service"),
    ],
)
def test_a_model_that_is_not_there_is_refused_before_anything_starts(
    service: str, model: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=says):
        Cluster(service, SERVICES, runtime="simulated", folder=tmp_path / "run", model=model)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("model", ["Heard", "HeardByParity"])
def test_a_model_hears_of_sessions_terms_timers_own_messages_and_time(model: str, tmp_path: Path) -> None:
    options = {"runtime": "simulated", "folder": tmp_path / "run", "model": f"tally:{model}"}
    with Cluster("tally:Tally", SERVICES, **options) as cluster:  # type: ignore[arg-type]
        for round_number, payload in enumerate((b"even", b"odd")):
            with cluster.client(timeout_s=5) as client:
                opened = [json.loads(client.request(payload))[1] for _ in range(REQUESTS // 2)]
            assert {*opened} == {round_number + 1}
            if round_number == 0:
                killed = cluster.chaos.kill_leader()
                assert cluster.wait_until_leader() != killed
        answers = json.loads(cluster.client(timeout_s=5).request(b"odd"))
        assert all(count > 1 for count in answers[3:])
        report = cluster.verify()
    require_valid(report)
    assert report.finding(Promise.LINEARIZABLE).detail.startswith("121 answers of calls are those of the model tally:")
