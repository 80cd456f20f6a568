"""Members of Aeron Cluster in containers: a leader is killed under load and comes back, links are broken by proxies of
what the kernel hands over, and the runs are judged.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.built_images import require
from support.docker_runs import left_of
from support.fault_cases import CASES, WORKLOAD, fault_of, one_round
from support.saboteur import OF_ALL, Sabotage
from support.stranger import copy_of, pytest_in
from support.valid import require_valid
from upheaval import images
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cluster import end_run, perform
from upheaval.errors import UsageError
from upheaval.execution.links import watch_consensus
from upheaval.execution.live import LiveStage
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.engine import Client
from upheaval.runtimes.docker.tool import run_tool
from upheaval.runtimes.process_load import ProcessLoad
from upheaval.scenario import parse_scenario
from upheaval.system import AERON, ClusterSpec
from upheaval.workload import WorkloadSettings
from upheaval_chaos import datagram_faults, faults, link_faults
from upheaval_chaos.target import DatagramFaultKind, LinkFaultKind
from upheaval_node.tool.__main__ import Options

VERSION = "1.49.3"
"""1.51.0 may lose what it acknowledged when leaders change often, which a slow machine is enough for."""
WAIT_S = 90.0


SCENARIO = parse_scenario(
    f"title x\n{WORKLOAD}wait operations 1\ninject x blackhole all -> all\n", name="links", where="links"
).on_system(f"aeron:{VERSION}")
LINK_FAULTS = [
    each for kind in (LinkFaultKind.BLACKHOLE, LinkFaultKind.SLOW, *DatagramFaultKind) for each in CASES[kind]
]


@pytest.fixture(scope="module")
def member_image(engine: Client) -> images.Image:
    image = images.image_named("aeron", VERSION)
    if not images.image_state(engine, image).is_current:
        images.build(engine, image, base=None, offline=True, say=print)
    return image


@pytest.fixture(scope="module")
def stage(
    tmp_path_factory: pytest.TempPathFactory, member_image: images.Image, link_images: None, engine: Client
) -> Iterator[LiveStage]:
    """Three members under load whose links can be broken; what they left is judged at the end."""
    folder = tmp_path_factory.mktemp("links") / "run"
    made = LiveStage(SCENARIO, "docker", 1, folder)
    try:
        made.open(print)
        yield made
    finally:
        made.close()
    verdicts = {finding.promise: finding.verdict for finding in verify_run(folder).findings}
    broken = {promise for promise, verdict in verdicts.items() if verdict is Verdict.INVALID}
    # A false injector ends members without a record of the fault.
    assert broken <= {Promise.NO_UNEXPLAINED_END}
    assert {verdicts[each] for each in (Promise.VOTES_KEPT, Promise.COMMITS_KEPT)} == {Verdict.VALID}
    assert left_of(engine, made.run.read_manifest().run_id) == []


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("statement", "sabotage"),
    [
        *((statement, Sabotage.NONE) for statement in LINK_FAULTS),
        *((LINK_FAULTS[0], how) for how in OF_ALL if how is not Sabotage.NONE),
        *(("lose leader <-> follower percent=30", how) for how in OF_ALL if how is not Sabotage.NONE),
    ],
)
def test_a_fault_of_links_is_proved_when_it_was_done(
    statement: str, sabotage: Sabotage, stage: LiveStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (faults, link_faults, datagram_faults) if sabotage is not Sabotage.NONE else ():
        # What will never happen need not be waited for as long as in earnest.
        for name in ("TAKES_EFFECT_S", "COMES_BACK_S"):
            monkeypatch.setattr(module, name, 4.0, raising=False)
    record = one_round(stage.target, fault_of(statement), sabotage)
    assert record.is_proved == (sabotage is Sabotage.NONE), record


def test_members_in_containers_say_who_leads(tmp_path: Path, engine: Client) -> None:
    require(engine, images.AERON)
    cluster = DockerCluster.create(tmp_path / "run", ClusterSpec(system=AERON))
    try:
        cluster.up(WAIT_S)
        leader = cluster.wait_until_leader(WAIT_S)
        assert cluster.status()[leader].alive
        assert asked_by_the_tool(cluster, leader, "list-members")["leaderMemberId"] == leader
    finally:
        cluster.down()
    assert left_of(engine, cluster.config.run_id) == []


@pytest.mark.nightly
def test_a_leader_of_aeron_is_killed_and_returns_and_what_members_say_is_seen(
    tmp_path: Path, member_image: images.Image, link_images: None, engine: Client
) -> None:
    assert images.problems_of(engine, member_image) == []
    cluster = DockerCluster.create(tmp_path / "run", ClusterSpec(system=f"aeron:{VERSION}"))
    try:
        watch_consensus(cluster, 1)
        cluster.up(WAIT_S)
        with ProcessLoad(cluster, WorkloadSettings(rate=200, slots=8)) as load:
            load.wait_until_acknowledged(100, WAIT_S)
            perform(cluster, "snapshot", timeout_s=WAIT_S)
            victim = cluster.wait_until_leader(WAIT_S)
            assert asked_by_the_tool(cluster, victim, "list-members")["leaderMemberId"] == victim
            text = asked_by_the_tool(cluster, victim, "snapshot")["text"]
            assert text == [f"Member [{victim}]: SNAPSHOT applied successfully"]
            cluster.member(victim).kill()
            cluster.wait_until_leader(WAIT_S, other_than=victim)
            load.wait_until_acknowledged(load.counts.ok + 50, WAIT_S)
            cluster.member(victim).start()
            cluster.wait_until_caught_up(victim, WAIT_S)
            cluster.member(victim).stop()
            cluster.member(victim).start()
            cluster.wait_until_caught_up(victim, WAIT_S)
        end_run(cluster, takes_snapshot=False)
    finally:
        cluster.down()
    report = verify_run(tmp_path / "run")
    require_valid(report)
    assert {Promise.VOTES_KEPT, Promise.COMMITS_KEPT} <= {finding.promise for finding in report.findings}
    assert left_of(engine, cluster.config.run_id) == []


def asked_by_the_tool(cluster: DockerCluster, member_id: int, command: str) -> dict[str, object]:
    answer = run_tool(
        cluster.folder, f"member-{member_id}", Options([f"member-{member_id}", command], timeout_ms=20_000)
    )
    assert answer.status == 0, answer
    return {"text": answer.lines, **answer.values}


@pytest.mark.nightly
def test_a_service_in_java_is_copied_or_brought_by_an_image(tmp_path: Path, engine: Client) -> None:
    for image in (images.AERON, images.NETFAULT):
        images.build(engine, image, base=None, offline=True, say=print)
    folder = copy_of("java-auction", tmp_path / "auction")
    subprocess.run(["mvn", "-B", "-q", "package"], cwd=folder, check=True)
    tag = f"upheaval-test-auction:{tmp_path.name}"
    engine.images.build(path=str(folder), tag=tag, rm=True, forcerm=True)
    try:
        for what, options in (("restart", ()), ("followers", ("-o", f"upheaval_image={tag}"))):
            test = ("--runtime", "docker", "tests/test_auction.py", "-k", what)
            done = pytest_in(folder, Path(sys.executable), *test, *options, timeout_s=600)
            assert done.returncode == 0, done.stdout + done.stderr
        spec = ClusterSpec(service="target/auction.jar:auction.AuctionService", image=tag, system="aeron:1.49.3")
        with pytest.raises(UsageError, match=r"label upheaval.aeron: expected 1.49.3, got 1.51.0: build it FROM uphea"):
            DockerCluster.create(tmp_path / "run", spec)
        assert not (tmp_path / "run").exists()
    finally:
        engine.images.remove(tag)
