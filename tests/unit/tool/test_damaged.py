"""Whatever is in the files of a node: each command says its text or one line, and damage is not made worse."""

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from support.hostile_inputs import hostile
from support.tool_folders import make_node, put
from upheaval_node.files.cnc import CncLayout, ready_version
from upheaval_node.tool.__main__ import main
from upheaval_node.tool.commands import COMMANDS

FILES = (
    "cluster/cluster-mark.dat",
    "cluster/cluster-mark-service-0.dat",
    "cluster/recording.log",
    "archive/archive.catalog",
    "archive/2-0.rec",
    "aeron/cnc.dat",
)
EXAMPLES = 300
CNC = CncLayout(4096 + 768, 4096 + 128, 16 * 128, 4096)


def _contents(node: Path) -> dict[str, bytes]:
    return {str(path.relative_to(node)): path.read_bytes() for path in node.rglob("*") if path.is_file()}


def _healthy(folder: Path) -> Path:
    put(folder / "aeron" / "cnc.dat", (ready_version() + CNC.header(start_timestamp_ms=1, pid=1)[4:]).ljust(20_000))
    return make_node(folder)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return _contents(_healthy(tmp_path_factory.mktemp("healthy")))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(FILES),
    command=st.sampled_from(sorted(COMMANDS)),
    seed=st.integers(min_value=0, max_value=1 << 32),
)
def test_a_damaged_file_is_one_line_at_most_and_stays(
    name: str, command: str, seed: int, healthy: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = tmp_path / "node"
    for path, content in healthy.items():
        put(node / path, content)
    (node / "cluster" / "recording.log.bak").unlink(missing_ok=True)
    (node / name).write_bytes(hostile(Random(seed), healthy[name]))
    before = _contents(node)
    capsys.readouterr()
    status = main([str(node), command, "1", "--json"])
    said = capsys.readouterr()
    assert status in (0, 1, 255)
    assert said.err.count("\n") == (status == 1)
    assert said.err == "" or said.err.startswith("upheaval-tool: ")
    answer = json.loads(said.out)
    assert answer["exit_status"] == status
    assert ("error" in answer) == (status == 1)
    if status or not COMMANDS[command].changes:
        assert _contents(node) == before
