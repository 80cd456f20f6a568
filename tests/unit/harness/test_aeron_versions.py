"""The version of Aeron that members ran is the one that the run names, or the run says nothing of that version."""

import json
from pathlib import Path

import pytest

from upheaval.checkers.evidence.binding import check_binding
from upheaval.checkers.verdict import Verdict
from upheaval.errors import EnvironmentFault
from upheaval.records import OWN_SYSTEM, Json, Manifest, MemberFolder, RunFolder
from upheaval.runtimes.renewal import require_version

OLD = "1.49.3"
NEW = "1.51.0"
OWN = "0.1.0"


def started(version: str | None, component: str = "all") -> dict[str, Json]:
    system = "upheaval" if version == OWN else "aeron"
    event: dict[str, Json] = {"ts": 1, "event": "process-start", "component": component, "pid": 7}
    return {**event, "system": system, "version": version}


def traced(folder: MemberFolder, *lines: dict[str, Json]) -> None:
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.trace.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    ("versions", "systems", "verdict"),
    [
        ([NEW], [f"aeron:{NEW}"], Verdict.VALID),
        ([OLD], [f"aeron:{NEW}"], Verdict.UNKNOWN),
        ([OLD, NEW], [f"aeron:{OLD}", f"aeron:{NEW}"], Verdict.VALID),
        ([OLD, OLD], [f"aeron:{OLD}", f"aeron:{NEW}"], Verdict.UNKNOWN),
        (["1.47.4", NEW], [f"aeron:{OLD}", f"aeron:{NEW}"], Verdict.UNKNOWN),
        ([OLD], [f"aeron:{OLD},{NEW}"], Verdict.VALID),
        ([NEW], [f"aeron:{OLD},{NEW}"], Verdict.UNKNOWN),
        (["1.53.0-SNAPSHOT"], ["aeron:1.53.0-SNAPSHOT@0123456789abcdef"], Verdict.VALID),
        ([None], [f"aeron:{NEW}"], Verdict.VALID),
        ([OWN], [OWN_SYSTEM], Verdict.VALID),
    ],
)
def test_a_run_is_bound_to_the_version_that_its_members_ran(
    versions: list[str | None], systems: list[str], verdict: Verdict, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path)
    run.create(Manifest("run-1", "process", 1, "test", 0, system=systems[-1], systems_before=tuple(systems[:-1])))
    traced(run.member(0), *map(started, versions))
    (finding,) = check_binding(run, run.read_manifest())
    assert finding.verdict is verdict
    if verdict is Verdict.UNKNOWN:
        assert f"member-0/trace.jsonl is of Aeron {versions[-2 if versions[0] == '1.47.4' else -1]}" in finding.detail


@pytest.mark.parametrize(("first", "verdict"), [([OLD, NEW], Verdict.VALID), ([OLD, OLD], Verdict.UNKNOWN)])
def test_a_member_that_an_upgrade_did_not_reach_keeps_its_version(
    first: list[str], verdict: Verdict, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path)
    run.create(Manifest("run-1", "docker", 2, "test", 0, system=f"aeron:{NEW}", systems_before=(f"aeron:{OLD}",)))
    traced(run.member(0), *map(started, first))
    traced(run.member(1), started(OLD))
    assert check_binding(run, run.read_manifest())[0].verdict is verdict


def test_each_component_of_a_member_has_a_last_start(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.create(Manifest("run-1", "process", 1, "test", 0, system=f"aeron:{NEW}", systems_before=(f"aeron:{OLD}",)))
    parts = ("archive", "consensus")
    traced(run.member(0), *(started(OLD, part) for part in parts), *(started(NEW, part) for part in parts))
    assert check_binding(run, run.read_manifest())[0].verdict is Verdict.VALID


def test_an_upgrade_that_did_not_happen_is_one_line(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path).member(2)
    traced(folder, started(OLD), started(OLD))
    with pytest.raises(EnvironmentFault, match=r"member 2 runs Aeron 1\.49\.3 and not 1\.51\.0: its launcher brings"):
        require_version(folder, f"aeron:{NEW}")
    traced(folder, started(OLD), started(NEW))
    require_version(folder, f"aeron:{NEW}")
