"""A volume that could not be filled is no member's data: the next start fills a new one."""

from pathlib import Path
from uuid import uuid4

import docker
import pytest

from upheaval.runtimes.docker.containers import ContainerPlan, _require_volume
from upheaval.runtimes.docker.engine import Client
from upheaval.system import in_containers


def test_a_volume_that_was_not_filled_does_not_stay(tmp_path: Path, node_image: str, engine: Client) -> None:
    name = f"upheaval-filling-{uuid4().hex[:12]}"
    system = in_containers("upheaval")
    files = tmp_path / "files"
    plan = ContainerPlan("member-0", {}, (), {}, "none", name, name, node_image, {}, restore=files)
    try:
        with pytest.raises(FileNotFoundError):
            _require_volume(engine, plan, system, {})
        with pytest.raises(docker.errors.NotFound):
            engine.volumes.get(name)
        files.mkdir()
        _require_volume(engine, plan, system, {})
        assert engine.volumes.get(name).name == name
    finally:
        for volume in engine.volumes.list(filters={"name": name}):
            volume.remove(force=True)
