"""Which system under test a text names, where that is written down, and what is refused."""

import json
from pathlib import Path

import pytest

from upheaval import Cluster
from upheaval.cli.main import main
from upheaval.errors import UsageError
from upheaval.records import RunFolder
from upheaval.runtimes.opening import create_cluster, open_cluster
from upheaval.scenario import load_scenario
from upheaval.system import ClusterSpec, UpheavalNode, system_named
from upheaval_node import __version__


@pytest.mark.parametrize("text", ["upheaval", f"upheaval:{__version__}"])
def test_our_node_is_the_system_of_the_product(text: str) -> None:
    system = system_named(text)
    assert isinstance(system, UpheavalNode)
    assert system.text == "upheaval" == ClusterSpec().system


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("upheavel", "unknown system 'upheavel': use one of upheaval, aeron; did you mean 'upheaval'"),
        ("", "unknown system ''"),
        ("upheaval:0.0.1", f"unknown version '0.0.1' of upheaval: this is {__version__}"),
    ],
)
def test_what_no_system_is_called_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        system_named(text)


@pytest.mark.parametrize(
    "command",
    [
        ["up", "--dir", "c"],
        ["demo", "--dir", "c"],
        ["run", "leader-killed", "--dir", "c"],
        ["run", "leader-killed", "--runtime", "process", "--dir", "c"],
        ["load", "--new-dir", "c"],
    ],
)
def test_commands_refuse_it_in_one_line(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*command, "--system", "upheavel"]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "unknown system 'upheavel'" in captured.err
    assert list(tmp_path.iterdir()) == []


def test_a_test_refuses_it(tmp_path: Path) -> None:
    for runtime in ("process", "simulated"):
        with pytest.raises(UsageError, match="unknown system 'upheavel'"):
            Cluster(runtime=runtime, system="upheavel", folder=tmp_path / runtime)


def test_an_exact_script_has_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "follower-offline", "--system", "upheaval"]) == 2
    assert "with its own service and system" in capsys.readouterr().err


def test_it_is_written_down_and_found_again(tmp_path: Path) -> None:
    with create_cluster("process", tmp_path, ClusterSpec(system=f"upheaval:{__version__}")) as cluster:
        assert cluster.system.text == "upheaval"
    assert RunFolder(tmp_path).read_manifest().system == "upheaval"
    path = tmp_path / "cluster.json"
    fields = json.loads(path.read_text())
    assert fields["system"] == "upheaval"
    path.write_text(json.dumps({**fields, "system": "another"}))
    with pytest.raises(UsageError, match="unknown system 'another'"):
        open_cluster(tmp_path)


def test_a_folder_of_before_is_of_our_node(tmp_path: Path) -> None:
    with create_cluster("process", tmp_path, ClusterSpec()):
        pass
    for name in ("cluster.json", "manifest.json"):
        path = tmp_path / name
        path.write_text(
            json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != "system"})
        )
    assert isinstance(open_cluster(tmp_path).system, UpheavalNode)
    assert RunFolder(tmp_path).read_manifest().system == "upheaval"


def test_a_scenario_is_run_on_another_system() -> None:
    scenario = load_scenario("leader-killed")
    assert scenario.on_system("another").cluster.system == "another"
    assert scenario.on_system(None) is scenario
