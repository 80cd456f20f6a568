"""Upgrades and new hosts, under load and judged from the run; what cannot be done is one line and changes nothing."""

import json
import signal
from pathlib import Path

import pytest

from support.live_clusters import end_without_trace
from support.valid import require_valid
from upheaval import Cluster
from upheaval.cli.main import main
from upheaval.errors import UnknownOutcome
from upheaval.operations.maintenance import replace_host, upgrade
from upheaval.runtimes.process import ProcessCluster
from upheaval.runtimes.process_hosts import ProcessHosts
from upheaval.runtimes.renewal import Renewal
from upheaval.system import ClusterSpec, parse_app_version
from upheaval.system.process_table import processes_of, send_signal, wait_until_gone
from upheaval.testing.live import LiveBackend

pytestmark = pytest.mark.heavy


@pytest.mark.nightly
@pytest.mark.parametrize("seeded", [False, True], ids=["empty", "seeded"])
def test_clients_go_on_over_an_upgrade_and_a_new_host(tmp_path: Path, seeded: bool) -> None:
    with Cluster(runtime="process", folder=tmp_path / "run") as cluster:
        backend = cluster._backend
        assert isinstance(backend, LiveBackend)
        live = backend.target
        assert isinstance(live, ProcessCluster)
        cluster.workload.wait_for(200)
        upgrade(live, ProcessHosts(live), Renewal(parse_app_version("0.2.0")), lambda _: None)
        cluster.workload.wait_for(200)
        dead = next(member_id for member_id in cluster.member_ids if member_id != cluster.wait_until_leader())
        live.member(dead).kill()
        seed = next(member_id for member_id in cluster.member_ids if member_id != dead) if seeded else None
        kept = replace_host(live, ProcessHosts(live), dead, seed)
        assert kept is not None
        assert (kept / "archive").is_dir()
        cluster.workload.wait_for(200)
        report = cluster.verify()
    require_valid(report)
    whats = [fault.what for fault in cluster.run.read_faults()]
    assert whats == ["stop"] * 3 + ["kill"]


def test_no_member_stops_after_one_that_was_renewed_has_died(tmp_path: Path) -> None:
    cluster = ProcessCluster.create(tmp_path / "c")
    renewed: list[int] = []
    version = parse_app_version("0.2.0")

    def die(text: str) -> None:
        renewed.append(int(text.split()[1]))
        victims = [each for each in processes_of(cluster.config.run_id) if each.member_id == renewed[-1]]
        send_signal(victims, signal.SIGKILL)
        wait_until_gone(victims, cluster.config.run_id)

    try:
        cluster.up()
        with pytest.raises(UnknownOutcome, match="has ended: the remaining members were not touched"):
            upgrade(cluster, ProcessHosts(cluster), Renewal(version), die)
        assert [fault.members for fault in cluster.run.read_faults()] == [tuple(renewed)]
        # A later command configures the member anew, as links through proxies do: its version remains.
        again = ProcessCluster.open(tmp_path / "c").member(renewed[0])
        again.configure()
        assert json.loads(again.configuration.read_text())["settings"]["cluster"]["app_version"] == version
    finally:
        end_without_trace(cluster)


def test_what_cannot_be_done_to_a_member_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "c")
    assert main(["up", "--dir", folder, "--members", "1"]) == 0
    try:
        capsys.readouterr()
        for arguments, reason in (
            (["replace", "0"], "member 0 is running"),
            (["replace", "7"], "unknown member 7"),
            (["stop", "7"], "unknown member 7"),
            (["upgrade", "--app-version", "1.0"], "use major.minor.patch"),
            (["upgrade", "--app-version", "1.2.256"], "use major.minor.patch"),
            (["upgrade", "--image", "x"], "these members are processes"),
            (["upgrade", "--to", "aeron:1.51.0"], "--to aeron:1.51.0: members of upheaval run what is installed"),
        ):
            assert main([arguments[0], "--dir", folder, *arguments[1:]]) == 2
            err = capsys.readouterr().err
            assert reason in err
            assert err.count("\n") == 1
        assert main(["stop", "--dir", folder, "0"]) == 0
        assert main(["stop", "--dir", folder, "0"]) == 0
        assert "member 0 is not running" in capsys.readouterr().out
        for arguments, reason in (
            (["replace", "--copy-from", "0", "0"], "cannot be seeded from itself"),
            (["replace", "--copy-from", "3", "0"], "unknown member 3"),
            (
                ["replace", "0"],
                "0 of the other 0 members run: with fewer than 1, member 0 may hold what no other member has",
            ),
            (["upgrade"], "member 0 is not running"),
        ):
            assert main([arguments[0], "--dir", folder, *arguments[1:]]) == 2
            err = capsys.readouterr().err
            assert reason in err
            assert err.count("\n") == 1
        assert not (tmp_path / "c" / "member-0" / "replaced-1").exists()
        assert main(["up", "--dir", folder]) == 0
    finally:
        end_without_trace(ProcessCluster.open(folder))


def test_a_member_without_a_log_is_no_seed_and_nothing_is_moved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = ProcessCluster.create(tmp_path / "c", ClusterSpec(members=2))
    (cluster.folder / "member-0" / "archive").mkdir()
    assert main(["replace", "--dir", str(cluster.folder), "--copy-from", "1", "0"]) == 2
    assert "member 1 has no log to copy" in capsys.readouterr().err
    assert (cluster.folder / "member-0" / "archive").is_dir()


def test_a_member_that_a_majority_needs_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty member and one that was behind would elect a leader without what was committed."""
    cluster = ProcessCluster.create(tmp_path / "c")
    try:
        cluster.member(2).node.start()
        archive = cluster.folder / "member-0" / "archive"
        archive.mkdir(exist_ok=True)
        assert main(["replace", "--dir", str(cluster.folder), "0"]) == 2
        err = capsys.readouterr().err
        assert "1 of the other 2 members run: with fewer than 2, member 0 may hold what no other member has" in err
        assert err.count("\n") == 1
        assert archive.is_dir()
        assert not cluster.member(0).is_running()
    finally:
        end_without_trace(cluster)
