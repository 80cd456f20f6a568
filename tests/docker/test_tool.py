"""`upheaval tool` on members in containers: inside while they run, on a copy of their files while they are down."""

import json

import pytest

from upheaval.cli.main import main
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.inside import run_silent

FAILED = 255


def test_the_tool_works_in_the_containers_of_members(
    cluster: DockerCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    leader = cluster.wait_until_leader()
    follower = next(each for each in range(3) if each != leader)

    def tool(member_id: int, *words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(["tool", f"{cluster.folder}/member-{member_id}", *words, "--timeout", "20"])
        said = capsys.readouterr()
        return status, said.out, said.err

    assert [tool(each, "is-leader") for each in range(3)] == [(0 if each == leader else 1, "", "") for each in range(3)]
    told = f"Current node is not the leader (leaderMemberId = {leader}), unable to SNAPSHOT"
    assert tool(follower, "snapshot") == (FAILED, f"Member [{follower}]: {told}\n", "")
    assert tool(leader, "snapshot") == (0, f"Member [{leader}]: SNAPSHOT applied successfully\n", "")
    status, out, _ = tool(follower, "list-members", "--json")
    members = json.loads(out)
    assert (status, members["leaderMemberId"], members["memberId"]) == (0, leader, follower)
    # The same by hand, inside.
    words = ["python3", "-m", "upheaval_node.tool", "cluster", "describe-latest-cm-snapshot"]
    status, text = run_silent(cluster.member(leader).node.container(), words, "looking at the snapshot")
    assert status == 0
    assert text.startswith("Snapshot: appVersion=1 timeUnit=MILLISECONDS\n")
    status, out, error = tool(leader, "sort-recording-log", "--json")
    assert (status, json.loads(out)["sorted"], error) == (FAILED, False, "")
    _look_at_a_dead_member(cluster, follower, tool(follower, "recording-log")[1], capsys)


def _look_at_a_dead_member(
    cluster: DockerCluster, member_id: int, recording_log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = f"{cluster.folder}/member-{member_id}"
    cluster.member(member_id).kill()
    try:
        assert main(["tool", folder, "recording-log"]) == 0
        assert main(["tool", folder, "invalidate-latest-snapshot"]) == 1
        said = capsys.readouterr()
        assert said.out == recording_log
        assert said.err == (
            f"upheaval tool: member-{member_id} is not running, and its files are in the engine: "
            "`upheaval down` fetches them\n"
        )
    finally:
        cluster.member(member_id).start()
        cluster.wait_until_caught_up(member_id)


def test_a_member_that_is_none_is_one_line(cluster: DockerCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tool", f"{cluster.folder}/member-7", "pid"]) == 1
    assert capsys.readouterr().err == "upheaval tool: unknown member-7: this cluster has 3 members\n"
    assert main(["tool", f"{cluster.folder}/elsewhere", "pid"]) == 1
    assert "'elsewhere' is not a node name" in capsys.readouterr().err
