"""Every command of docs/operations.md, run as it is written there; tests/docker has those for containers."""

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest

from support.page_commands import blocks_of, run_block
from upheaval.records import RunFolder
from upheaval.runtimes.process import ProcessCluster
from upheaval.system.process_table import processes_of

pytestmark = pytest.mark.heavy

PAGE = "operations.md"
KINDS = {"sh", "sh nightly", "sh docker", "sh no-run", "json", "text", "text top"}
"""`text` is output of the commands of the page; `top` and `ui` go on until they are ended, so no block runs them."""


def test_every_block_of_the_page_is_run_by_a_test() -> None:
    blocks = blocks_of(PAGE)
    assert {block.info for block in blocks} == KINDS
    for block in blocks:
        if block.info == "json":
            assert json.loads(block.text)["level"] == "info"


@pytest.mark.parametrize("kinds", [{"sh"}, pytest.param({"sh", "sh nightly"}, marks=pytest.mark.nightly)])
def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path, kinds: set[str]) -> None:
    printed: dict[int, str] = {}
    try:
        for block in blocks_of(PAGE):
            if block.info in kinds:
                printed[block.line] = run_block(PAGE, block, tmp_path)
        left = [found for folder in clusters_in(tmp_path) for found in processes_of(folder.config.run_id)]
        assert left == []
    finally:
        for cluster in clusters_in(tmp_path):
            cluster.down()
    told = "\n".join(printed.values())
    shown = [block.text.splitlines() for block in blocks_of(PAGE) if block.info == "text"]
    heads = table_heads(line for lines in shown for line in lines)
    assert len(heads) == 2
    assert heads <= table_heads(told.splitlines())
    for text in ('upheaval_role{role="leader"}', '"alive":', "leaderMemberId=", " LEADER", "its old files: "):
        assert text in told, text
    reads = [each for each in told.splitlines() if each.isdigit()]
    assert set(reads) <= {"5", "6"}
    assert len(reads) >= 3
    shop = RunFolder(tmp_path / "shop")
    assert all(control.proof.holds for control in shop.read_controls())
    assert all(fault.is_proved and fault.heal_end_ns is not None for fault in shop.read_faults())
    assert [control.what for control in shop.read_controls()][-3:] == ["shutdown", "abort", "snapshot"]


def clusters_in(folder: Path) -> list[ProcessCluster]:
    return [ProcessCluster.open(path.parent) for path in sorted(folder.glob("*/cluster.json"))]


def table_heads(lines: Iterable[str]) -> set[tuple[str, ...]]:
    """The names of the columns of each table, recognized by the rule below them."""
    return {tuple(head.split()) for head, rule in pairwise(lines) if rule.startswith("---")}
