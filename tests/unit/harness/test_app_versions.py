"""The application version that a scenario chooses: members of both systems have it on every runtime."""

from dataclasses import replace

import pytest

from upheaval.runtimes.simulated.cluster import member_settings
from upheaval.scenario import ScenarioError, parse_scenario
from upheaval.system import ClusterSpec, MemberPlan, system_named
from upheaval_node.settings import profile_settings

ENDPOINTS = [["127.0.0.1:2000"] * 5]


def spec(option: str = "", system: str = "upheaval") -> ClusterSpec:
    text = f"title An application has a version\ncluster members=1{option}\nwait operations 1\n"
    return replace(parse_scenario(text, name="versions", where="here").cluster, run_id="7f", system=system)


@pytest.mark.parametrize(("option", "version"), [(" app-version=1.2.3", 0x010203), ("", 1)])
def test_members_of_both_systems_have_it(option: str, version: int) -> None:
    assert member_settings(spec(option)).cluster.app_version == version
    plan = MemberPlan(spec(option, "aeron"), 0, ENDPOINTS, "127.0.0.1:2005", "/somewhere/member-0")
    in_java = system_named("aeron").configuration_text(plan)
    own = system_named("upheaval").configuration_text(replace(plan, spec=spec(option)))
    assert (f"app.version={version}\n" in in_java) is (f'"app_version": {version}' in own) is bool(option)


def test_members_without_one_have_the_settings_of_the_profile() -> None:
    assert member_settings(spec()) == profile_settings("test", sync_level=1)


def test_the_version_that_means_the_default_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"app-version is at least 0\.0\.1"):
        spec(" app-version=0.0.0")


@pytest.mark.parametrize("version", ["1.2", "1.2.x", "1.2.256", "-1.0.0"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(ScenarioError, match=f"version '{version}': use major.minor.patch, each 0 to 255"):
        spec(f" app-version={version}")
