"""A volume that could not be filled is no member's data: the next start fills it, also after the harness was killed."""

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import docker
import pytest

from upheaval.runtimes.docker.collect import read_file
from upheaval.runtimes.docker.containers import ContainerPlan, _require_volume
from upheaval.runtimes.docker.engine import Client
from upheaval.system import in_containers

SYSTEM = in_containers("upheaval")
KILLED = """
import os, sys
from pathlib import Path
from upheaval.runtimes.docker import containers
from upheaval.runtimes.docker.engine import connected
from upheaval.system import in_containers

name, image, files = sys.argv[1:]
containers._pack = lambda *_: os._exit(9)
plan = containers.ContainerPlan("member-0", {}, (), {}, "none", name, name, image, {}, restore=Path(files))
with connected() as client:
    containers._require_volume(client, plan, in_containers("upheaval"), {"of": "the test"})
"""


@pytest.fixture
def name(engine: Client) -> Iterator[str]:
    """That of a volume, which is removed with what was made beside it."""
    name = f"upheaval-filling-{uuid4().hex[:12]}"
    yield name
    for container in engine.containers.list(all=True, filters={"name": name}):
        container.remove(force=True)
    for volume in engine.volumes.list(filters={"name": name}):
        volume.remove(force=True)


@pytest.fixture
def image(name: str, node_image: str, engine: Client) -> Iterator[str]:
    """The node's with one more volume, as an image of a user may have."""
    engine.images.build(fileobj=io.BytesIO(f"FROM {node_image}\nVOLUME /data".encode()), tag=name)
    yield name
    engine.images.remove(name, force=True)


def has_file(engine: Client, image: str, name: str) -> bool:
    """Whether the volume has the member's trace."""
    mounts = {name: {"bind": str(SYSTEM.folder), "mode": "ro"}}
    container = engine.containers.create(image, name=f"{name}-reader", volumes=mounts, network_mode="none")
    try:
        return read_file(container, str(SYSTEM.folder / "trace.jsonl")) == b"{}"
    finally:
        container.remove(force=True)


@pytest.mark.parametrize("end", ["fails", "is killed"])
def test_a_volume_that_was_not_filled_is_filled_by_the_next_start(
    end: str, name: str, tmp_path: Path, image: str, node_image: str, engine: Client
) -> None:
    files = tmp_path / "files"
    plan = ContainerPlan("member-0", {}, (), {}, "none", name, name, image, {}, restore=files)
    if end == "fails":
        with pytest.raises(FileNotFoundError):
            _require_volume(engine, plan, SYSTEM, {"of": "the test"})
    else:
        command = [sys.executable, "-c", KILLED, name, image, str(files)]
        assert subprocess.run(command, env=os.environ, check=False, timeout=300).returncode == 9
    mounts = engine.containers.get(f"{name}-filling").attrs["Mounts"]
    (nameless,) = [mount["Name"] for mount in mounts if mount["Destination"] == "/data"]
    files.mkdir()
    (files / "trace.jsonl").write_text("{}")
    _require_volume(engine, plan, SYSTEM, {"of": "the test"})
    assert engine.volumes.get(name).attrs["Labels"] == {"of": "the test"}
    assert has_file(engine, node_image, name)
    with pytest.raises(docker.errors.NotFound):
        engine.containers.get(f"{name}-filling")
    with pytest.raises(docker.errors.NotFound):
        engine.volumes.get(nameless)
    # A whole one stays as it is.
    (files / "trace.jsonl").write_text("of an earlier time")
    _require_volume(engine, plan, SYSTEM, {})
    assert has_file(engine, node_image, name)
