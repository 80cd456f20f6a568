"""`upheaval shrink` on a run of containers."""

from pathlib import Path

import pytest

from support.docker_runs import left_of
from support.shrunk_runs import require_shrunk
from upheaval.records import RunFolder
from upheaval.runtime_names import DOCKER
from upheaval.runtimes.docker.engine import Client


@pytest.mark.nightly
@pytest.mark.heavy
@pytest.mark.usefixtures("node_test_image", "link_images")
def test_a_run_of_containers_is_made_simpler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], engine: Client
) -> None:
    monkeypatch.chdir(tmp_path)
    require_shrunk(DOCKER, 8, capsys)
    for folder in ("run", "run-smallest/run", "again"):
        assert left_of(engine, RunFolder(folder).read_manifest().run_id) == []
