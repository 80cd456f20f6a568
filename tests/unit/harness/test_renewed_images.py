"""An upgrade of containers is recorded when the first of them is down, not before."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from upheaval.runtimes import cluster_file
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.hosts import DockerHosts
from upheaval.runtimes.new_runs import new_manifest
from upheaval.runtimes.renewal import Renewal
from upheaval.system import ClusterSpec

OLD, NEW = "1.49.3", "1.51.0"


class Failed(Exception):
    """An error of the engine's client."""


class Engine:
    """One with an image of each version and no container. Stands in for the engine's client."""

    def __init__(self) -> None:
        self.images = self.containers = self.api = self

    def get(self, name: str) -> Any:
        if name.startswith("upheaval/"):
            return SimpleNamespace(id=name)
        raise Failed

    def inspect_image(self, tag: str) -> dict[str, Any]:
        return {"Config": {"Labels": {"upheaval.aeron": tag.rpartition(":")[2]}}}


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an engine."""
    # It imports the client's package, which is replaced below.
    import testcontainers.core.container

    assert testcontainers.core.container.Reaper
    errors = SimpleNamespace(NotFound=Failed, ImageNotFound=Failed, DockerException=Failed)
    monkeypatch.setitem(sys.modules, "docker", SimpleNamespace(errors=errors))
    exceptions = SimpleNamespace(RequestException=Failed)
    monkeypatch.setitem(sys.modules, "requests", SimpleNamespace(exceptions=exceptions))


def test_a_renewal_is_recorded_with_the_first_member(tmp_path: Path) -> None:
    spec = ClusterSpec(system=f"aeron:{OLD}", image=f"upheaval/aeron:{OLD}", base_port=20_000).made("7f")
    cluster = DockerCluster(tmp_path, spec, Engine(), detached=True)
    cluster_file.save(spec, cluster.runtime, tmp_path)
    cluster.run.create(new_manifest(spec, cluster.runtime))
    before = cluster_file.load(tmp_path), cluster.run.read_manifest()
    hosts = DockerHosts(cluster)
    renewal = hosts.prepare(Renewal(system=f"aeron:{NEW}"))
    assert (cluster_file.load(tmp_path), cluster.run.read_manifest()) == before
    assert (cluster.config, cluster.system.text) == (spec, f"aeron:{OLD}")
    hosts.renew(1, renewal)
    after = cluster_file.load(tmp_path)
    assert (after.system, after.image) == (f"aeron:{NEW}", f"upheaval/aeron:{NEW}")
    manifest = cluster.run.read_manifest()
    assert (manifest.systems_before, manifest.system) == ((f"aeron:{OLD}",), f"aeron:{NEW}")
    assert cluster.system.text == f"aeron:{NEW}"
    hosts.renew(0, renewal)
    assert cluster.run.read_manifest() == manifest
