"""What a run draws about one subject, such as a link, is the same whatever happens to the others."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

import pytest
from hypothesis import given, strategies as st

from upheaval.runtimes.simulated.cluster import SimulatedCluster
from upheaval.runtimes.simulated.links import Link
from upheaval.runtimes.simulated.network import Fabric
from upheaval.runtimes.simulated.world import START_NS, World
from upheaval.workload import WorkloadSettings
from upheaval_node.settings import profile_settings
from upheaval_node.types import S

SEED = 11
BEGIN_NS = START_NS + 2 * S
"""Of a fault."""
HOSTS = ("a", "b", "c")
WAYS = [(source, target) for source in HOSTS for target in HOSTS]

Sent = Sequence[tuple[tuple[str, str], int]]


def delays(sent: Sent) -> dict[tuple[str, str], list[int]]:
    """How long each message is under way, by its link."""
    fabric, found = Fabric(World(SEED)), defaultdict(list)
    for way, length in sent:
        found[way].append(fabric.arrival_ns(fabric.link(*way), length, 0) - START_NS)
    return found


@given(st.lists(st.tuples(st.sampled_from(WAYS), st.integers(1, 2000)), max_size=30), st.sampled_from(WAYS))
def test_what_one_link_carries_shifts_no_draw_of_another(sent: Sent, left_out: tuple[str, str]) -> None:
    rest = delays([message for message in sent if message[0] != left_out])
    assert rest == {way: drawn for way, drawn in delays(sent).items() if way != left_out}


class Noted:
    """A cluster under load whose latencies are noted by link. At `BEGIN_NS` something may happen to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, happens: Callable[["Noted"], None] | None = None) -> None:
        self.world = World(SEED)
        self.latencies: dict[str, list[int]] = defaultdict(list)
        self.lines_before: dict[int, list[str]] = {}
        arrival_ns = Fabric.arrival_ns

        def noted(fabric: Fabric, link: Link, length: int, not_before_ns: int) -> int:
            latency_ns = arrival_ns(fabric, link, length, 0) - self.world.now_ns
            self.latencies[link.name].append(latency_ns)
            return max(self.world.now_ns + latency_ns, not_before_ns)

        def begin() -> None:
            self.lines_before = {member: list(lines) for member, lines in self.cluster.journal.lines.items()}
            if happens is not None:
                happens(self)

        with monkeypatch.context() as patched:
            patched.setattr(Fabric, "arrival_ns", noted)
            self.cluster = SimulatedCluster(self.world, settings=profile_settings("test", sync_level=1))
            self.cluster.start_all()
            self.cluster.wait_until_leader()
            self.cluster.start_load(WorkloadSettings(slots=4, keys=4, rate=100))
            self.world.at(BEGIN_NS, begin)
            self.world.run_for(BEGIN_NS + 2 * S - self.world.now_ns)

    @property
    def lines(self) -> dict[int, list[str]]:
        return self.cluster.journal.lines


def kill_a_follower(run: Noted) -> None:
    leader = run.cluster.leader()
    assert leader is not None
    run.cluster.members[(leader + 1) % 3].kill()


@pytest.mark.pure
def test_a_fault_shifts_no_draw_about_what_it_does_not_touch(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, faulty = Noted(monkeypatch), Noted(monkeypatch, kill_a_follower)
    assert plain.lines_before == faulty.lines_before
    assert plain.lines != faulty.lines
    leader = plain.cluster.leader()
    links = [name for name in plain.latencies if name.startswith(f"member-{leader}/member-{(leader + 2) % 3}/")]
    assert links
    for name in links:
        one, other = plain.latencies[name], faulty.latencies[name]
        count = min(len(one), len(other))
        assert count > 0
        assert one[:count] == other[:count]


@pytest.mark.pure
def test_a_run_goes_on_with_other_draws_in_another_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the byte the same until then; each epoch differs from the others, and is the same again."""
    plain, one, again, other = (
        Noted(monkeypatch, happens) for happens in (None, *(partial(in_epoch, epoch) for epoch in (1, 1, 2)))
    )
    assert plain.lines_before == one.lines_before == other.lines_before
    assert one.lines == again.lines
    assert plain.latencies != one.latencies != other.latencies != plain.latencies


def in_epoch(epoch: int, run: Noted) -> None:
    run.world.rekey(epoch)


def test_a_draw_in_an_epoch_depends_on_nothing_that_was_drawn_before() -> None:
    one, other = World(SEED), World(SEED)
    for world, count in ((one, 1), (other, 5)):
        for _ in range(count):
            world.stream("link").random()
        world.rekey(1)
    assert one.stream("link").random() == other.stream("link").random()
    assert one.stream("disk").random() == other.stream("disk").random()
