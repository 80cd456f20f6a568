"""An installed wheel, outside of any clone, does what a clone does."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from support.stranger import ROOT, environment
from upheaval import images
from upheaval.images import source_digest

DIGESTS = """
import json
from upheaval import images
print(json.dumps({image.name: images.source_digest(image) for image in images.IMAGES}))
"""
COMPOSE_FILES = sorted(path.stem for path in (ROOT / "compose").glob("*.yaml"))


def run(folder: Path, program: Path, *arguments: str, timeout_s: float = 120) -> "subprocess.CompletedProcess[str]":
    command = [str(program), *arguments]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=timeout_s)


@pytest.fixture
def upheaval(python: Path) -> Path:
    """The command that pip made."""
    return python.with_name("upheaval")


def test_images_are_built_from_the_same_files_as_in_a_clone(tmp_path: Path, python: Path) -> None:
    done = run(tmp_path, python, "-c", DIGESTS)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {image.name: source_digest(image) for image in images.IMAGES}


@pytest.mark.parametrize("name", COMPOSE_FILES)
def test_a_compose_file_is_printed_with_what_it_mounts(tmp_path: Path, upheaval: Path, name: str) -> None:
    done = run(tmp_path, upheaval, "compose", name)
    assert done.returncode == 0, done.stderr
    services = yaml.safe_load(done.stdout)["services"]
    mounted = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])]
    assert [path for path in mounted if path.startswith(".") or (path[0] == "/" and not Path(path).exists())] == []


def test_compose_files_are_listed(tmp_path: Path, upheaval: Path) -> None:
    listed = json.loads(run(tmp_path, upheaval, "compose", "--json").stdout)
    assert [each["name"] for each in listed] == COMPOSE_FILES
    wrong = run(tmp_path, upheaval, "compose", "4-members")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("upheaval: unknown compose file '4-members': use one of 1-member, ")


def test_what_containers_need_is_named_as_it_can_be_installed(tmp_path: Path, upheaval: Path) -> None:
    done = run(tmp_path, upheaval, "images", "list")
    assert done.returncode == 2
    assert "pip install 'docker>=7' 'packaging>=22' 'testcontainers>=4' 'toxiproxy-python>=0.1'" in done.stderr


@pytest.mark.heavy
def test_the_demo_and_a_scenario_run(tmp_path: Path, upheaval: Path) -> None:
    demo = run(tmp_path, upheaval, "demo", "--operations", "200", "--dir", "demo", timeout_s=300)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    simulated = run(tmp_path, upheaval, "run", "leader-isolated-blackhole", "--runtime", "simulated", timeout_s=300)
    assert simulated.returncode == 0, simulated.stdout + simulated.stderr
