"""The compose files: what a container may take of the machine, and that files can be up side by side."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.stranger import ROOT

FILES = sorted((ROOT / "compose").glob("*.yaml"))
LIMITS = ("mem_limit", "cpus", "pids_limit")
SUBNET = re.compile(r"10\.214\.\d+\.\d+/\d+")


def services_of(path: Path) -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["services"]
    return services


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_container_has_limits(path: Path) -> None:
    unlimited = [
        f"{name}: {limit}" for name, service in services_of(path).items() for limit in LIMITS if limit not in service
    ]
    unlimited += [
        f"{name}: log"
        for name, service in services_of(path).items()
        if {"max-size", "max-file"} - service.get("logging", {}).get("options", {}).keys()
    ]
    assert unlimited == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_container_asks_for_more_processors_than_a_small_machine_has(path: Path) -> None:
    assert [name for name, service in services_of(path).items() if float(service["cpus"]) > 1] == []


def test_no_two_files_share_a_subnet() -> None:
    subnets = [(subnet, path.name) for path in FILES for subnet in SUBNET.findall(path.read_text(encoding="utf-8"))]
    assert len(subnets) == len({subnet for subnet, _ in subnets}) > len(FILES), sorted(subnets)


def test_three_members_can_have_locust() -> None:
    assert services_of(ROOT / "compose" / "3-members.yaml")["locust"]["profiles"] == ["load"]
