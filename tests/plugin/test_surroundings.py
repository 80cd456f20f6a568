"""The README's first test passes whatever its caller has: dead proxies, an ASCII locale, a folder whose name is not
ASCII, open descriptors.
"""

import json
import tempfile
from pathlib import Path

import pytest

from support.pages import page_blocks
from support.stranger import PATIENCE_S, pytest_in

DEAD = "http://127.0.0.1:9"
"""The port of `discard`, where nothing listens."""

SURROUNDINGS = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"), DEAD),
    "NO_PROXY": "",
    "no_proxy": "",
    "LANG": "C",
    "LC_ALL": "C",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONIOENCODING": "ascii:strict",
}

FIRST_TEST = "def test_nothing_acknowledged_is_lost_with_the_leader"

LOOK = '''
import json
from pathlib import Path

import pytest

from upheaval.system.process_table import processes_of


@pytest.fixture(autouse=True)
def members_files(cluster):
    """Writes what each member holds open."""
    (state,) = Path("runs").glob("*/cluster.json")
    pids = [process.pid for process in processes_of(json.loads(state.read_text())["run_id"])]
    held = [[str(path.resolve()) for path in Path(f"/proc/{pid}/fd").iterdir()] for pid in pids]
    Path("held.json").write_text(json.dumps(held))
'''


@pytest.mark.heavy
def test_the_first_test_passes_and_members_inherit_no_descriptor(tmp_path: Path, python: Path) -> None:
    folder = tmp_path / "b\u00fccher"
    folder.mkdir()
    blocks = [block.block.text for block in page_blocks("python") if block.page == "README.md"]
    (first,) = (text for text in blocks if FIRST_TEST in text)
    (folder / "test_first.py").write_text(first)
    (folder / "conftest.py").write_text(LOOK)
    with tempfile.NamedTemporaryFile(dir=tmp_path) as ours:
        done = pytest_in(folder, python, timeout_s=4 * PATIENCE_S, variables=SURROUNDINGS, pass_fds=(ours.fileno(),))
    # On a machine that is too slow for elections a run is unknown; it is never invalid, nor a fault of the environment.
    assert done.returncode == 0 or "upheaval.errors.UnknownOutcome" in done.stdout, done.stdout + done.stderr
    held = json.loads((folder / "held.json").read_text())
    assert len(held) == 3
    assert [files for files in held if ours.name in files] == []
