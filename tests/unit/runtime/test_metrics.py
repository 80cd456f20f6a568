"""What the exposition says for given counters, and that a strict reader takes it."""

from support.prometheus_text import Exposition
from upheaval_node import __version__, counters as types
from upheaval_node.cluster.commit_latency import CommitLatency
from upheaval_node.cluster.module_context import ModuleCounters
from upheaval_node.counters import Counters, cluster_key, recording_position_key
from upheaval_node.runtime.metrics import render
from upheaval_node.types import MS, Now

HISTOGRAM = "upheaval_commit_latency_seconds"


def exposition(counters: Counters) -> Exposition:
    return Exposition(render(counters, member_id=2, start_ms=1_700_000_000_500).decode("ascii"))


def test_a_member_without_components_says_who_it_is() -> None:
    found = exposition(Counters.in_memory())
    assert sorted(found.families) == ["upheaval_info", "upheaval_start_time_seconds"]
    assert found.value("upheaval_info", member_id="2", version=__version__) == 1
    assert found.value("upheaval_start_time_seconds") == 1_700_000_000.5


def test_the_counters_of_a_consensus_module_are_shown() -> None:
    counters = Counters.in_memory()
    module = ModuleCounters(counters, 0)
    assert exposition(counters).role == "follower"
    assert exposition(counters).value("upheaval_leadership_term_id") == -1
    module.role.set(2)
    module.election_state.set(17)
    module.leadership_term_id.set(4)
    module.commit_position.set(9_007_199_254_740_993)
    module.election_count.set(3)
    module.open_sessions.set(5)
    module.errors.set(6)
    module.timed_out_clients.set(7)
    found = exposition(counters)
    assert found.role == "leader"
    assert found.value("upheaval_role", role="follower") == 0
    assert found.value("upheaval_election_state") == 17
    assert found.value("upheaval_leadership_term_id") == 4
    assert found.value("upheaval_elections_total") == 3
    assert found.value("upheaval_sessions") == 5
    assert found.value("upheaval_errors_total", component="consensus") == 6
    assert found.value("upheaval_client_timeouts_total") == 7
    assert b"upheaval_commit_position_bytes 9007199254740993\n" in render(counters, member_id=0, start_ms=0)


def test_the_append_position_is_that_of_the_logs_recording() -> None:
    counters = Counters.in_memory()
    module = ModuleCounters(counters, 0)
    for recording_id in (0, 1):
        key = recording_position_key(recording_id, 7, "here", 0)
        counters.allocate(types.RECORDING_POSITION, key, "rec-pos", 100 + recording_id)
    assert exposition(counters).value("upheaval_append_position_bytes") is None
    module.log_recording_id.set(1)
    assert exposition(counters).value("upheaval_append_position_bytes") == 101


def test_errors_are_told_apart_by_component() -> None:
    counters = Counters.in_memory()
    counters.allocate(types.ARCHIVE_ERRORS, bytes(8), "", 1)
    counters.allocate(types.SYSTEM_COUNTER, bytes(4), "", 2)
    for service_id in (0, 1):
        counters.allocate(types.CONTAINER_ERRORS, cluster_key(0, service_id), "", 3 + service_id)
    found = exposition(counters)
    assert [
        found.value("upheaval_errors_total", component=component)
        for component in ("archive", "media", "service-0", "service-1")
    ] == [1, 2, 3, 4]


def test_the_histogram_counts_in_each_bucket_what_is_below_its_bound() -> None:
    counters = Counters.in_memory()
    latency = CommitLatency(counters, 0)
    assert exposition(counters).value(f"{HISTOGRAM}_count") == 0
    for number, latency_ns in enumerate((100_000, 100_001, 3 * MS, 3 * MS, 60_000 * MS)):
        latency.on_append(Now(0, 0), number, number + 1)
        latency.on_commit(Now(latency_ns, 0), number + 1)
    found = exposition(counters)
    values = [found.value(f"{HISTOGRAM}_bucket", le=le) for le in ("0.0001", "0.00025", "0.0025", "0.005", "10.0")]
    assert values == [1, 2, 2, 4, 4]
    assert found.value(f"{HISTOGRAM}_bucket", le="+Inf") == found.value(f"{HISTOGRAM}_count") == 5
    assert found.value(f"{HISTOGRAM}_sum") == 60.006200001


def test_one_position_is_under_way_at_a_time_and_an_election_gives_it_up() -> None:
    counters = Counters.in_memory()
    latency = CommitLatency(counters, 0)
    latency.on_append(Now(0, 0), 64, 64)
    latency.on_commit(Now(1 * MS, 0), 64)
    assert exposition(counters).value(f"{HISTOGRAM}_count") == 0, "nothing was appended"
    latency.on_append(Now(0, 0), 64, 128)
    latency.on_append(Now(1 * MS, 0), 128, 256)
    latency.on_commit(Now(2 * MS, 0), 96)
    latency.on_commit(Now(4 * MS, 0), 192)
    latency.on_commit(Now(5 * MS, 0), 256)
    assert exposition(counters).value(f"{HISTOGRAM}_count") == 1
    assert exposition(counters).value(f"{HISTOGRAM}_sum") == 0.004
    latency.on_append(Now(6 * MS, 0), 256, 288)
    latency.abandon()
    latency.on_commit(Now(9 * MS, 0), 288)
    assert exposition(counters).value(f"{HISTOGRAM}_count") == 1


def test_a_closed_histogram_frees_its_counters() -> None:
    counters = Counters.in_memory()
    CommitLatency(counters, 0).close()
    assert counters.allocated_ids() == []
