"""The addresses of proxies in members' configurations, while their harness lives, and after it was killed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from upheaval.execution.links import open_links
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec

HARNESS: Final = """
import sys
from upheaval.execution.links import open_links
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec

open_links(ProcessCluster.create(sys.argv[1], ClusterSpec()), 1)
print("open", flush=True)
sys.stdin.read()
"""


def configurations(folder: Path) -> list[bytes]:
    return [(folder / f"member-{number}" / "config.json").read_bytes() for number in range(3)]


def names(folder: Path) -> list[dict[str, str]]:
    return [json.loads(content)["names"] for content in configurations(folder)]


def test_members_keep_their_proxies_until_the_harness_that_has_them_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-c", HARNESS, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == "open\n"
        proxied = names(folder)
        assert all(proxied)
        ProcessCluster.open(folder).leave_lost_proxies()
        assert names(folder) == proxied
        harness.kill()
    ProcessCluster.open(folder).leave_lost_proxies()
    assert names(folder) == [{}, {}, {}]
    assert list(folder.glob("proxies*")) == []


def test_a_member_that_cannot_be_configured_keeps_the_owner_and_no_other_member(tmp_path: Path) -> None:
    cluster = ProcessCluster.create(tmp_path / "run", ClusterSpec())
    open_links(cluster, 1)
    place = cluster.member(0).configuration
    place.unlink()
    place.mkdir()
    cluster.close()
    assert [json.loads(cluster.member(number).configuration.read_text())["names"] for number in (1, 2)] == [{}, {}]
    assert len(list(cluster.folder.glob("proxies*"))) == 1


def test_closed_links_leave_the_folder_as_it_was(tmp_path: Path) -> None:
    cluster = ProcessCluster.create(tmp_path / "run", ClusterSpec())
    files, before = sorted(cluster.folder.iterdir()), configurations(cluster.folder)
    open_links(cluster, 1)
    assert all(names(cluster.folder))
    cluster.close()
    assert configurations(cluster.folder) == before
    assert sorted(cluster.folder.iterdir()) == files
