"""The cluster of a campaign as the text of a scenario, as far as the language can express it.

The language has no time-outs, no lengths and only a few of the variations. A text is therefore a proposal: only a run
shows whether it fails the same way. The most general texts come first: a fault after that many operations, then after
that much time.
"""

from collections.abc import Callable, Iterator
from math import ceil
from typing import Final

from upheaval.campaign.swarm import Moment, Swarm
from upheaval.records import AdminCommand
from upheaval.scenario import AskFor, WaitMoment, WaitSeconds, WaitState
from upheaval_chaos.faults import Fault
from upheaval_node.cluster.rules import OWN
from upheaval_node.types import MS, S

WATCHED: Final = "invariants on"
Pause = Callable[[int], str]
"""The statement that lets that many nanoseconds of the load pass."""


def scenario_texts(swarm: Swarm, *, is_watched: bool) -> Iterator[str]:
    """The scenario of that cluster in several texts. `is_watched`: with the invariants of the simulation."""
    rate = max(swarm.workload().rate, 1)

    def operations(duration_ns: int) -> str:
        return f"wait operations {max(ceil(duration_ns * rate / S), 1)}"

    def moment(duration_ns: int) -> str:
        return f"wait moment after-ms={duration_ns // MS}"

    for is_proved, before, within in ((True, operations, moment), (False, operations, moment), (False, moment, moment)):
        yield "\n".join(_lines(swarm, before, within, is_watched=is_watched, is_proved=is_proved)) + "\n"


def _lines(swarm: Swarm, before: Pause, within: Pause, *, is_watched: bool, is_proved: bool) -> Iterator[str]:
    variations, load = swarm.variations, swarm.workload()
    options = [f"members={swarm.members}", f"sync-level={swarm.sync_level}", f"service={swarm.service}"]
    if variations.more_services:
        options.append(f"beside={','.join(variations.more_services)}")
    if variations.leader_disconnect_ms:
        options.append(f"leader-disconnect-ms={variations.leader_disconnect_ms}")
    if swarm.compatibility != OWN:
        options.append(f"compatibility={swarm.compatibility}")
    yield f"title Seed {swarm.seed} of a campaign, made simpler"
    yield f"cluster {' '.join(options)}"
    silent = [f"silent={load.silent}"] if load.silent else []
    yield " ".join([f"workload rate={load.rate} slots={load.slots} keys={load.keys}", *silent])
    if is_watched:
        yield WATCHED
    yield "wait operations 1"
    begin, end = ("inject", "heal") if is_proved else ("begin", "end")
    now_ns, active = 0, 0
    for time_ns, name, fault in sorted(_events(swarm), key=lambda event: event[0]):
        if time_ns > now_ns:
            yield (within if active else before)(time_ns - now_ns)
        now_ns = time_ns
        if isinstance(fault, str):
            yield fault
        elif fault is None:
            active -= 1
            yield f"{end} {name}"
        else:
            active += 1
            yield f"{begin} {name} {fault.statement}"
    yield "wait leader"
    calm_s = sum(step.seconds for step in swarm.scenario().steps if isinstance(step, WaitSeconds))
    yield f"wait seconds {max(ceil(calm_s + swarm.seconds - now_ns / S), 1)}"


def _waits(moment: Moment | None) -> Iterator[str]:
    for step in () if moment is None else moment.steps():
        match step:
            case AskFor(command):
                yield f"ask {command}"
            case WaitState(state, who, name=name):
                yield f"wait state {state}" + (f" of={who}" if who is not None else "") + f" as={name}"
            case WaitMoment(_, after_ms):
                yield f"wait moment after-ms={after_ms}"


def _events(swarm: Swarm) -> Iterator[tuple[int, str, Fault | str | None]]:
    """Faults with their names, ends of faults with None, and other statements."""
    for name, planned in swarm.named_faults():
        for statement in _waits(planned.moment):
            yield planned.start_ns, name, statement
        yield planned.start_ns, name, planned.fault
        for statement in _waits(planned.until):
            yield planned.heal_ns, name, statement
        yield planned.heal_ns, name, None
    if swarm.snapshot_interval_ns:
        for time_ns in range(swarm.snapshot_interval_ns, swarm.seconds * S, swarm.snapshot_interval_ns):
            yield time_ns, "", f"ask {AskFor(AdminCommand.SNAPSHOT).command}"
    if swarm.ending:
        yield swarm.ending_ns, "", swarm.ending
        yield swarm.ending_ns, "", AdminCommand.START.value
