"""The commands of docs/operations.md for containers, run as they stand there."""

from pathlib import Path

import pytest

from support.docker_runs import left_of
from support.page_commands import blocks_of, run_block
from upheaval.records import RunFolder
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.engine import Client

PAGE = "operations.md"


@pytest.mark.nightly
def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path, node_image: str, engine: Client) -> None:
    (block,) = [block for block in blocks_of(PAGE) if block.info == "sh docker"]
    assert node_image in block.text
    try:
        told = run_block(PAGE, block, tmp_path).splitlines()
    finally:
        if (tmp_path / "crate" / "cluster.json").exists():
            with DockerCluster.open(tmp_path / "crate") as cluster:
                cluster.down()
    assert "member 1 began with a copy of member 0 and has caught up" in told
    assert told[-2] == "5"
    crate = RunFolder(tmp_path / "crate")
    assert all(fault.is_proved and fault.heal_end_ns is not None for fault in crate.read_faults())
    assert [control.proof.holds for control in crate.read_controls()] == [True]
    assert left_of(engine, crate.read_manifest().run_id) == []
