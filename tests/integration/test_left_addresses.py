"""The addresses of proxies in members' configurations, after their harness was killed."""

import json
from pathlib import Path

from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec


def names_of(folder: Path) -> list[dict[str, str]]:
    return [json.loads((folder / f"member-{number}" / "config.json").read_text())["names"] for number in range(3)]


def test_members_dial_no_proxies_of_a_harness_that_was_killed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    abandoned = ProcessCluster.create(folder, ClusterSpec())
    configured = [(folder / f"member-{number}" / "config.json").read_bytes() for number in range(3)]
    address = abandoned.member(1).endpoints[0]
    abandoned.dial_through(0, {address: "127.0.0.1:9"})
    assert names_of(folder) == [{address: "127.0.0.1:9"}, {}, {}]
    ProcessCluster.open(folder)._prepare()
    assert names_of(folder) == [{}, {}, {}]
    assert [(folder / f"member-{number}" / "config.json").read_bytes() for number in range(3)] == configured
