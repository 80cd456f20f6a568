"""Simulated schedules as texts for live members, and the count of what the tries of one showed."""

import json
from collections.abc import Sequence
from functools import partial
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from upheaval.campaign.carry import carried, schedule_of
from upheaval.campaign.fingerprint import Fingerprint
from upheaval.campaign.shrink_text import SCENARIO_FILE
from upheaval.campaign.tries import TEXT_TRIES_FILE
from upheaval.checkers.promises import Promise
from upheaval.checkers.signature import Signature
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.cli.main import main
from upheaval.cli.shrink import smallest_of
from upheaval.errors import UsageError
from upheaval.execution.known_bugs import rate_interval
from upheaval.scenario import Begin, parse_scenario
from upheaval.scenario.portable import portable
from upheaval_chaos.exit_status import CommandStatus
from upheaval_chaos.faults import MemberFault, Roster, sparing
from upheaval_chaos.link_faults import LinkFault

SCHEDULE = """\
# of seed 7
title Two leaders are lost
cluster members=3 service=workbench leader-disconnect-ms=20 compatibility=E7
invariants on
wait operations 5
inject first kill member-1
wait moment after-ms=300
begin second blackhole member-0 <-> member-1,member-2 channel=log
wait moment after-ms=158
heal first
end second
wait seconds 7
"""
LED = {("first", False): 1, ("second", False): 0, ("first", True): 0, ("second", True): 0}
CARRIED = """\
title Two leaders are lost
cluster members=3 service=workbench
wait operations 5
inject first kill leader
wait leader other-than first
begin second blackhole leader <-> followers channel=log
wait moment after-ms=158
heal first
end second
wait seconds 7
"""


def led(name: str, has_ended: bool) -> int | None:
    return LED[name, has_ended]


def test_roles_and_conditions_replace_ids_and_times() -> None:
    text = SCHEDULE.replace("member-1,member-2", "followers")
    made = portable(text, led)
    assert made.text == CARRIED
    assert parse_scenario(made.text, name="made", where="made").runtimes
    assert made.changes == (
        "no leader-disconnect-ms=20",
        "no compatibility=E7",
        "no invariants: they are judged inside the simulation",
        "roles of members in place of ids",
        "waits for another leader in place of times",
    )


def test_the_member_that_an_earlier_fault_hit_is_its_victim() -> None:
    text = portable(SCHEDULE, led).text
    assert "begin second blackhole leader <-> victim!first,follower!first channel=log" in text
    assert parse_scenario(text, name="made", where="made").runtimes


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ("member-0 <-> member-1,member-2,member-3,member-4", "leader <-> victim!first,followers!first"),
        ("member-0,member-2,member-3,member-4 <-> member-1", "leader,followers!first <-> victim!first"),
    ],
)
def test_several_followers_are_named_once_and_beside_others(ends: str, expected: str) -> None:
    text = SCHEDULE.replace("members=3", "members=5").replace("member-0 <-> member-1,member-2", ends)
    made = portable(text, led).text
    assert f"begin second blackhole {expected} channel=log" in made
    assert parse_scenario(made, name="made", where="made").runtimes


@pytest.mark.parametrize(
    ("members", "faults", "made"),
    [
        (3, ["blackhole member-1 -> member-2"], ["blackhole follower -> followers"]),
        (3, ["blackhole member-2 -> member-0", "kill member-1"], ["blackhole follower -> leader", "kill follower!a"]),
        (3, ["blackhole member-0 -> member-2", "kill member-2"], ["blackhole leader -> follower", "kill follower"]),
        (5, ["kill member-3", "kill member-1"], ["kill follower", "kill follower!a"]),
        (
            5,
            ["blackhole member-0 <-> member-1,member-2"],
            "fault 'a': no role distinguishes member-1,member-2 from the other",
        ),
        (5, ["blackhole member-1 -> member-2"], "fault 'a': no role distinguishes member-2 from the other"),
        (
            5,
            ["kill member-1", "kill member-2", "kill member-3"],
            "fault 'c': no role distinguishes member-3 from the other",
        ),
        (
            3,
            ["blackhole member-0 -> member-2", "kill member-1"],
            "fault 'b': no role distinguishes member-1 from the other",
        ),
    ],
)
def test_members_that_no_role_tells_apart_are_refused(members: int, faults: list[str], made: list[str] | str) -> None:
    """The leader is member 0."""

    def begun(faults: list[str]) -> list[str]:
        return [f"begin {name} {fault}" for name, fault in zip("abc", faults, strict=False)]

    text = "\n".join([f"cluster members={members}", *begun(faults)])
    if isinstance(made, str):
        with pytest.raises(UsageError, match=made):
            portable(text, lambda _name, _has_ended: 0)
    else:
        assert portable(text, lambda _name, _has_ended: 0).text.splitlines()[1:] == begun(made)


def hits(text: str, members: int, leaders: Sequence[int]) -> list[tuple[tuple[int, ...], set[tuple[int, int]]]]:
    """The victim of each fault, if it has a single one, and the members or links that it hits under these leaders."""
    faults, victims = [], dict[str, list[int]]()
    steps = [step for step in parse_scenario(text, name="t", where="t").steps if isinstance(step, Begin)]
    for step, leader in zip(steps, leaders, strict=True):
        roster = Roster(range(members), partial(int, leader), lambda _: True)
        fault = sparing(step.fault, victims.__getitem__)
        if isinstance(fault, LinkFault):
            sources, targets = fault.sources.select(roster), fault.targets.select(roster)
            hit = {(a, b) for a in sources for b in targets if a != b}
            hit |= {(b, a) for a, b in hit} if fault.both_ways else set()
        else:
            assert isinstance(fault, MemberFault)
            sources = fault.members.select(roster)
            hit = {(member, member) for member in sources}
        faults.append((tuple(sources) if len(sources) == 1 else (), hit))
        victims[step.name] = sources
    return faults


@st.composite
def schedules(draw: st.DrawFn) -> tuple[int, list[str], list[int]]:
    """Faults of members by their ids, and who leads at each."""
    members = draw(st.sampled_from([3, 5]))
    some = st.lists(st.integers(0, members - 1), min_size=1, max_size=members, unique=True)
    faults = []
    for name in "abc"[: draw(st.integers(1, 3))]:
        source, target = draw(some), draw(some)
        one, other = (",".join(f"member-{each}" for each in ends) for ends in (source, target))
        has_links = any(a != b for a in source for b in target)
        arrow = draw(st.sampled_from(["->", "<->"]))
        is_cut = has_links and draw(st.booleans())
        faults.append(f"begin {name} blackhole {one} {arrow} {other}" if is_cut else f"begin {name} kill {one}")
    return members, faults, [draw(st.integers(0, members - 1)) for _ in faults]


LED_MEANWHILE = [
    "begin a blackhole member-0,member-1 <-> member-0",
    "begin b kill member-0,member-1,member-2",
    "begin c kill member-0",
]


@given(schedules())
@example((3, LED_MEANWHILE, [2, 0, 2]))
@settings(max_examples=200, deadline=None)
def test_a_carried_schedule_is_the_simulated_one_by_other_ids(schedule: tuple[int, list[str], list[int]]) -> None:
    """Whichever members lead, as long as the same faults have hit them as in the simulation."""
    members, faults, leaders = schedule
    text = "\n".join(["title t", f"cluster members={members}", "wait operations 1", *faults])
    led = dict(zip("abc", leaders, strict=False))
    try:
        made = portable(text, lambda name, _has_ended: led[name]).text
    except UsageError:
        return
    simulated = hits(text, members, leaders)
    for order in permutations(range(members), len(set(leaders))):
        live = dict(zip(dict.fromkeys(leaders), order, strict=True))
        found = hits(made, members, [live[leader] for leader in leaders])
        renamings = list(permutations(range(members)))
        for leader, (victims, meant), (struck, hit) in zip(leaders, simulated, found, strict=True):
            renamings = [new for new in renamings if new[leader] == live[leader]]
            if not renamings:
                break
            renamings = [
                new
                for new in renamings
                if (not victims or (new[victims[0]],) == struck) and {(new[a], new[b]) for a, b in meant} == hit
            ]
            assert renamings, made


def test_times_stay_where_the_same_member_leads() -> None:
    text = portable(SCHEDULE, lambda _name, _has_ended: 0).text
    assert "inject first kill follower\nwait moment after-ms=300\n" in text


@pytest.mark.parametrize("kind", ["power-cut", "die-in-change", "power-lost-in-change", "wrong-bytes"])
def test_a_kill_replaces_a_fault_that_live_members_cannot_have(kind: str) -> None:
    option = {"wrong-bytes": " at-percent=59"}.get(kind, " changes=2" if "change" in kind else "")
    made = portable(SCHEDULE.replace("kill member-1", f"{kind} member-1{option}"), led)
    assert "inject first kill leader\n" in made.text
    assert f"kill for {kind}" in made.changes


def test_a_fault_of_connections_is_refused() -> None:
    with pytest.raises(UsageError, match="fault 'first': timeout cannot be done"):
        portable("inject first timeout leader <-> followers timeout-ms=100", led)


WANTED = Fingerprint("invalid", "commits-kept", "commit", "LEADER", "CLOSED")
LIKE = Finding(Promise.COMMITS_KEPT, Verdict.INVALID, "gone", signature=Signature("commit", "LEADER", "CLOSED"))
UNLIKE = Finding(Promise.COMMITS_KEPT, Verdict.INVALID, "gone", signature=Signature("commit", "FOLLOWER"))
LOST = Finding(Promise.ACKNOWLEDGED_NOT_LOST, Verdict.INVALID, "operation 7", known_issue=2147)
FINE = Finding(Promise.RUN_CONVERGED, Verdict.VALID, "at 5")
KEPT = Finding(Promise.COMMITS_KEPT, Verdict.VALID, "3 members")
QUIET = Finding(Promise.ENOUGH_TRAFFIC, Verdict.UNKNOWN, "2  operations\nof 100")


def test_tries_are_counted_by_promise_and_by_fingerprint() -> None:
    reports = [Report("run", found) for found in ((LIKE, LOST), (UNLIKE, QUIET), (FINE, KEPT), (QUIET, KEPT), (FINE,))]
    done = carried(WANTED, reports, ["no leader after 60 s"])
    assert (done.tries, done.judged, done.broken, done.alike) == (6, 3, 2, 1)
    assert done.seen == {
        "invalid commits-kept commit LEADER CLOSED": 1,
        "invalid acknowledged-not-lost, as Aeron issue 2147 does": 1,
        "invalid commits-kept commit FOLLOWER": 1,
    }
    assert done.prevented == {
        "no leader after 60 s": 1,
        "every promise that was checked was kept": 1,
        "enough-traffic: 2 operations of 100": 1,
        "commits-kept was not checked": 1,
    }
    assert done.interval == rate_interval(2, 3)


def test_a_try_that_broke_another_promise_did_not_keep_every_one() -> None:
    done = carried(WANTED, [Report("run", (KEPT, LOST))])
    assert (done.judged, done.broken) == (1, 0)
    assert done.prevented == {"commits-kept was kept, acknowledged-not-lost was broken": 1}


def test_tries_that_show_nothing_leave_the_rate_open() -> None:
    """Clusters that did not start, and runs that are unknown, say nothing of the promise."""
    broken = carried(WANTED, [Report("run", (LIKE,))], ["member 1 did not start"] * 4)
    assert (broken.tries, broken.interval) == (5, rate_interval(1, 1))
    unknown = carried(WANTED, [Report("run", (QUIET,))], ["member 1 did not start"])
    assert (unknown.judged, unknown.interval) == (0, (0, 1))


def test_a_run_that_breaks_no_promise_is_not_carried(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="calm breaks no promise in a simulated run"):
        schedule_of("title Calm\ninvariants on\nwait operations 5\n", "calm", 1, tmp_path / "run")


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["carry", *words]) == CommandStatus.REFUSED
    (line,) = capsys.readouterr().err.splitlines()
    return line


def recorded(folder: Path, **fields: object) -> Path:
    folder.mkdir()
    (folder / "run.scenario").write_text("title Calm\nwait operations 5\n")
    result = {"scenario": "calm", "runtime": "simulated", "seed": 1, "planted": None, "own": None}
    (folder / "result.json").write_text(json.dumps({**result, **fields}))
    return folder


def shrunk(run: Path) -> Path:
    """A text that fails with another seed than its run."""
    folder = smallest_of(run)
    folder.mkdir()
    (folder / SCENARIO_FILE).write_text("title Calm\nwait operations 5\n")
    (folder / TEXT_TRIES_FILE).write_text('{"seed": 3}\n')
    return folder


def test_a_shrunk_text_is_run_with_the_seed_with_which_it_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = shrunk(recorded(tmp_path / "calm")), tmp_path / "out"
    for _ in range(2):
        why = refused(capsys, str(folder), "--out", str(out))
        assert "calm breaks no promise in a simulated run with seed 3" in why
        assert not any(out.iterdir()), "a refusal leaves nothing that the next try would trip over"


def test_what_cannot_be_carried_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "out")]
    live = recorded(tmp_path / "live", runtime="process")
    assert "ran on the process runtime: carry a simulated failure" in refused(capsys, str(live), *out)
    planted = recorded(tmp_path / "planted", planted="commit-without-a-quorum")
    assert "members of Aeron have neither" in refused(capsys, str(planted), *out)
    shrunk(planted)
    assert "members of Aeron have neither" in refused(capsys, str(planted), *out)
    assert "is not a run of a scenario" in refused(capsys, str(tmp_path), *out)
    assert "the simulation runs this one already" in refused(capsys, str(live), "--system", "upheaval", *out)
    assert "unknown system 'etcd'" in refused(capsys, str(live), "--system", "etcd", *out)
    assert not (tmp_path / "out").exists()
