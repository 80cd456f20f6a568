"""The session time-out that a scenario chooses: members of both systems have it, and the judge reads it."""

from dataclasses import replace

from upheaval.checkers.evidence.troubles import timeouts_of
from upheaval.records import Manifest
from upheaval.runtimes.simulated.cluster import member_settings
from upheaval.scenario import parse_scenario
from upheaval.system import ClusterSpec, MemberPlan, system_named
from upheaval_node.settings import profile_settings
from upheaval_node.types import S

TEXT = "title Sessions live long\ncluster session-timeout-ms=30000\nwait operations 1\n"
ENDPOINTS = [["127.0.0.1:2000"] * 5]


def spec(system: str = "upheaval") -> ClusterSpec:
    chosen = parse_scenario(TEXT, name="long", where="here").cluster
    return replace(chosen, members=1, run_id="7f", system=system)


def test_simulated_members_have_the_session_timeout_of_the_scenario() -> None:
    usual = profile_settings("test", sync_level=1)
    settings = member_settings(spec())
    assert settings.cluster.timeouts == replace(usual.cluster.timeouts, session_ns=30 * S)
    assert member_settings(replace(spec(), session_timeout_ms=0)) == usual


def test_live_members_of_both_systems_have_it() -> None:
    for name, expected in (("upheaval", '"session_ns": 30000000000'), ("aeron", "session.timeout.ms=30000\n")):
        plan = MemberPlan(spec(name), 0, ENDPOINTS, "127.0.0.1:2005", "/somewhere/member-0")
        assert expected in system_named(name).configuration_text(plan)


def test_the_judge_reads_it_in_the_manifest() -> None:
    manifest = Manifest("7f", "process", 1, "test", 1, timeouts=spec().timeouts)
    assert timeouts_of(manifest).session_ns == 30 * S
