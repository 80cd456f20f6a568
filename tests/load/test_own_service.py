"""A custom service and its locust users in scenarios and campaigns, simulated and on processes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.stranger import EXAMPLES, ROOT
from upheaval.checkers.promises import Promise
from upheaval.records import RunFolder

SERVICE = """
import json
import sys
from upheaval import ClusteredService

class Lock(ClusteredService):
    def __init__(self):
        self.tokens = {}

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        token = self.tokens[request["lock"]] = self.tokens.get(request["lock"], 0) + 1
        if session is not None:
            session.respond(json.dumps(token).encode())

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None and (state := snapshot_image.read()) is not None:
            self.tokens = json.loads(state)

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps(self.tokens).encode())

class Ordered(Lock):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def on_session_message(self, session, timestamp, payload, position):
        self.seen.add(f"request {position}")
        self.tokens["first seen"] = next(iter(self.seen))
        super().on_session_message(session, timestamp, payload, position)

# No process that judges can make it.
class Elsewhere(Lock):
    def __init__(self):
        if "campaign" not in sys.argv:
            raise RuntimeError("not on this machine")
        super().__init__()

class Cyclic(Lock):
    def on_session_message(self, session, timestamp, payload, position):
        super().on_session_message(session, timestamp, payload, position)
        self.tokens = {lock: token % 40 for lock, token in self.tokens.items()}
"""

USERS = """
import json
from locust import TaskSet, constant, task
from upheaval import ClusterUser

class Taker(ClusterUser):
    def on_start(self):
        super().on_start()
        self.latest = {}

    @task
    def take(self):
        lock = f"lock-{self.random.randrange(3)}"
        answer = self.call("take", json.dumps({"id": self.new_id(), "lock": lock}).encode())
        if answer is not None:
            token = json.loads(answer)
            assert token > self.latest.get(lock, 0), f"{lock} has an older token"
            self.latest[lock] = token

class Slow(Taker):
    wait_time = constant(2)

class Mistaken(Taker):
    @task
    def recognise(self):
        request = json.dumps({"id": self.new_id(), "lock": "lock-9"}).encode()
        self.call("take", request, accepts=lambda answer: answer["id"] == 1)

class Idle(ClusterUser):
    pass

class Divided(ClusterUser):
    tasks = [TaskSet]
"""
RIGHT = ("--service", "lock:Lock", "--user", "takers:Taker")
WRONG = ("--service", "lock:Cyclic", "--user", "takers:Taker")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lock.py").write_text(SERVICE)
    (tmp_path / "takers.py").write_text(USERS)
    return tmp_path


def upheaval(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "upheaval.cli.main", *words]
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)


def snapshots_of(folder: Path) -> tuple[int, int]:
    """How many were taken before the one fault of the run, and how many after its heal."""
    (fault,) = RunFolder(folder).read_faults()
    assert fault.heal_end_ns is not None
    times = [control.begin_ns for control in RunFolder(folder).read_controls()]
    before = sum(ns < fault.inject_begin_ns for ns in times)
    after = sum(ns > fault.heal_end_ns for ns in times)
    assert before + after == len(times)
    return before, after


@pytest.mark.parametrize("runtime", ["simulated", pytest.param("process", marks=pytest.mark.nightly)])
def test_a_scenario_runs_with_a_service_of_ones_own_and_is_replayed(runtime: str, folder: Path) -> None:
    done = upheaval(folder, "run", "leader-killed", *RIGHT, "--runtime", runtime, "--dir", "run", "--json")
    result = json.loads(done.stdout)
    assert (done.returncode, result["verdict"]) == (0, "valid"), done
    promises = {each["promise"]: each["detail"] for each in result["promises"]}
    assert "acknowledged calls found in the log" in promises[Promise.ACKNOWLEDGED_NOT_LOST]
    assert "of service 0" in promises[Promise.STATES_AGREE]
    if runtime == "simulated":
        assert snapshots_of(folder / "run") == (1, 2), "one is taken at the end"
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    again = upheaval(elsewhere, "replay", "../run", "--runtime", "simulated", "--json")
    assert again.returncode == 0, again
    assert (json.loads(again.stdout)["digest"] == result["digest"]) is (runtime == "simulated")


def test_a_scenario_says_that_it_wants_no_snapshots_but_that_at_the_end(folder: Path) -> None:
    text = "title A follower dies\nwitnesses off\nwait operations 50\ninject dead kill follower\n"
    (folder / "off.scenario").write_text(
        f"{text}wait operations 50\nheal dead\nwait caught-up dead\nwait operations 9\n"
    )
    done = upheaval(folder, "run", "off.scenario", *RIGHT, "--runtime", "simulated", "--dir", "run", "--json")
    assert done.returncode == 0, done
    assert snapshots_of(folder / "run") == (0, 1)


def test_the_order_of_a_set_is_seen_though_simulated_members_share_a_hash_seed(folder: Path) -> None:
    service = ("--service", "lock:Ordered", "--user", "takers:Taker")
    done = upheaval(folder, "run", "leader-killed", *service, "--runtime", "simulated", "--dir", "run", "--json")
    assert done.returncode == 1, done
    promises = json.loads(done.stdout)["promises"]
    broken = {promise["promise"] for promise in promises if promise["verdict"] == "invalid"}
    assert Promise.SNAPSHOT_IS_REPLAY in broken
    # A member that began with a snapshot has put the same names into its set in another order.
    assert broken <= {Promise.SNAPSHOT_IS_REPLAY, Promise.STATES_AGREE}


def test_a_test_of_answers_that_raises_fails_its_call_and_the_load_goes_on(folder: Path) -> None:
    (folder / "short.scenario").write_text("title Calls\nwait operations 120\n")
    users = ("--service", "lock:Lock", "--user", "takers:Mistaken")
    done = upheaval(folder, "run", "short.scenario", *users, "--runtime", "simulated", "--dir", "run", "--json")
    assert done.returncode == 1, done
    failed = [each for each in json.loads(done.stdout)["promises"] if each["verdict"] == "invalid"]
    assert [each["promise"] for each in failed] == [Promise.TASKS_PASSED]
    assert "TypeError" in failed[0]["detail"]
    assert "takers.py" in failed[0]["detail"]


def test_a_seed_whose_users_are_told_wrong_fails_everywhere_and_is_tried_first_the_next_time(folder: Path) -> None:
    done = upheaval(folder, "campaign", "--seeds", "3", *WRONG)
    assert done.returncode == 1, done
    left = next(line.split()[-1] for line in done.stderr.splitlines() if line.startswith("  left: "))
    details = set()
    for command in (["verify", left], ["replay", left, "--dir", "again"], ["verify", "again"]):
        judged = upheaval(folder, *command, "--json")
        assert judged.returncode == 1, judged
        failed = [each for each in json.loads(judged.stdout)["promises"] if each["verdict"] == "invalid"]
        assert [each["promise"] for each in failed] == [Promise.TASKS_PASSED]
        details.add(failed[0]["detail"])
    (detail,) = details
    line = USERS.splitlines().index('            assert token > self.latest.get(lock, 0), f"{lock} has an older token"')
    assert "has an older token" in detail
    assert f"takers.py:{line + 1} in take" in detail
    # Another service has no such memory; and what passes is forgotten.
    (folder / "lock.py").write_text(SERVICE.replace("% 40", "% 40_000"))
    mended = upheaval(folder, "campaign", "--seeds", "8", *WRONG)
    assert mended.returncode == 0, mended
    assert mended.stderr.splitlines()[0] == "failed last time, tried first: seed 3"
    assert mended.stdout.startswith("2 seeds: 2 count")
    assert json.loads((folder / "runs" / "failed-seeds.json").read_text()) == {}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--service", "lock:Lock"], "needs --user"),
        (["--user", "takers:Taker"], "--service"),
        (["--service", "nosuch"], "unknown service 'nosuch'"),
        (["--service", "lock:Look", "--user", "takers:Taker"], "no class 'Look'"),
        (["--service", "lock:Lock", "--user", "nosuch"], "user 'nosuch'"),
        (["--service", "lock:Lock", "--user", "takers:Taler"], "no class 'Taler'"),
        (["--service", "lock:Lock", "--user", "lock:Lock"], "not a subclass of upheaval.ClusterUser"),
        (["--service", "lock:Lock", "--user", "takers:Idle"], "has no tasks"),
        (["--service", "lock:Lock", "--user", "takers:Divided"], "TaskSet"),
    ],
)
def test_what_cannot_run_is_refused_in_one_line_before_anything_starts(
    options: list[str], text: str, folder: Path
) -> None:
    before = sorted(path.name for path in folder.iterdir())
    done = upheaval(folder, "run", "leader-killed", *options)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done
    assert text in done.stderr
    assert sorted(path.name for path in folder.iterdir() if path.name != "__pycache__") == before


def test_a_load_with_an_unknown_user_is_refused_before_anything_starts(folder: Path) -> None:
    done = upheaval(folder, "load", "--service", "lock:Lock", "--user", "nosuch", "--new-dir", "run")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done
    assert "user 'nosuch'" in done.stderr
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--dir", "typo"), "typo holds no cluster: start one with `upheaval up --dir typo`"),
        (("--dir", "typo", "--new-dir", "run"), "--dir and --new-dir: give one of them"),
    ],
)
def test_a_load_makes_no_cluster_where_it_was_to_find_one(options: tuple[str, ...], text: str, folder: Path) -> None:
    done = upheaval(folder, "load", *options)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done
    assert text in done.stderr
    assert not (folder / "typo").exists()
    assert not (folder / "run").exists()


@pytest.mark.heavy
def test_the_action_runs_a_service_of_its_repository(tmp_path: Path) -> None:
    """Named alone, it is the service of `[tool.upheaval]`, with that table's users and model."""
    folder = tmp_path / "locks"
    shutil.copytree(EXAMPLES / "locks", folder)
    settings = {
        "SCENARIO": "leader-killed",
        "RUNTIME": "simulated",
        "SEED": "3",
        "SERVICE": "locks.service:LockService",
    }
    settings |= dict.fromkeys(("SYSTEM", "LOAD_USER", "MODEL", "SCHEMA"), "")
    files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    command = [str(ROOT / ".github" / "run_scenario.sh")]
    variables = {"PATH": path, "HOME": str(tmp_path), **settings, **files}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verdict=valid\n" in (tmp_path / "GITHUB_OUTPUT").read_text()
    (run,) = folder.glob("upheaval-run-*")
    manifest = RunFolder(run).read_manifest()
    assert (manifest.service, manifest.model) == ("locks.service:LockService", "locks.checks:Lock")


def test_a_campaign_says_which_promises_it_could_not_judge(folder: Path) -> None:
    words = ("campaign", "--seeds", "1..1", "--service", "lock:Elsewhere", "--user", "takers:Taker")
    done = upheaval(folder, *words, "--out", "seeds")
    assert done.returncode == 0, done.stderr
    gaps = [line for line in done.stdout.splitlines() if line.startswith("not checked: ")]
    (line,) = map(json.loads, (folder / "seeds/seeds.jsonl").read_text().splitlines())
    assert gaps == [f"{gap} (in 1 of 1 seeds)" for gap in line["gaps"]]
    for promise in (Promise.LINEARIZABLE, Promise.SNAPSHOT_IS_REPLAY):
        (gap,) = [gap for gap in gaps if gap.startswith(f"not checked: {promise.sentence}: ")]
        assert "not on this machine" in gap


def test_one_seed_that_does_too_little_shows_nothing(folder: Path) -> None:
    words = ("campaign", "--seeds", "1..1", "--service", "lock:Lock", "--user", "takers:Slow", "--dir", "run")
    done = upheaval(folder, *words, "--json")
    outcome = json.loads(done.stdout)
    assert (outcome["verdict"], outcome["inconclusive"], outcome["folder"]) == ("valid", True, "run")
    assert (done.returncode, done.stderr) == (
        3,
        "seed 1 does not count: it did too little to show anything\n",
    )
