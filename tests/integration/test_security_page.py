"""Every command of docs/security.md, run as it is written there, and what the page says of a configuration."""

import json
from pathlib import Path

import pytest

from support.page_commands import blocks_of, run_block
from upheaval.records import RunFolder
from upheaval.runtimes.process import ProcessCluster
from upheaval_node.tls_files import tls_files

pytestmark = pytest.mark.heavy

PAGE = "security.md"


@pytest.mark.nightly
def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    try:
        commands = [block for block in blocks_of(PAGE) if block.info == "sh"]
        printed = [run_block(PAGE, block, tmp_path) for block in commands]
    finally:
        for path in sorted(tmp_path.glob("*/cluster.json")):
            ProcessCluster.open(path.parent).down()
    told = "\n".join(printed).splitlines()
    assert [line for line in told if line.isdigit()] == ["5", "5", "5"]
    assert sum(line.startswith("reloading ") for line in told) == 2
    promises = [line for line in told if line.startswith("only ")]
    assert len(promises) == 2
    assert all(" valid " in line for line in promises), promises
    assert (RunFolder(tmp_path / "safe").path / "security.json").is_file()
    assert (tmp_path / "certificates" / "authority.key").stat().st_mode & 0o077 == 0
    assert (tmp_path / "shopkeeper.secret").stat().st_mode & 0o077 == 0


def test_the_configuration_of_the_page_is_one() -> None:
    blocks = blocks_of(PAGE)
    assert {block.info for block in blocks} == {"sh", "json", "text"}
    (shown,) = [json.loads(block.text) for block in blocks if block.info == "json"]
    files = tls_files(shown["tls"])
    assert files is not None
    assert files.key == "tls/key.pem"
