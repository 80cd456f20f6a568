"""The text of scenarios: what it says, and where it is wrong."""

import re
from pathlib import Path
from typing import Any

import pytest

from support.fault_cases import fault_of
from upheaval.checkers.promises import Promise
from upheaval.cli.main import main
from upheaval.errors import UsageError
from upheaval.records import AdminCommand
from upheaval.scenario import (
    AskFor,
    Begin,
    End,
    GiveCommand,
    Heal,
    Inject,
    KeepCompanion,
    ScenarioError,
    WaitCaughtUp,
    WaitCompanion,
    WaitLeader,
    WaitMoment,
    WaitOperations,
    WaitSeconds,
    WaitSent,
    load_scenario,
    parse_scenario,
    scenario_names,
)
from upheaval.system import ClusterSpec
from upheaval_chaos.datagram_faults import DatagramFault, DatagramFaultKind
from upheaval_chaos.faults import Group, MemberFault, MemberFaultKind, Members, Selector
from upheaval_chaos.link_faults import LinkFault
from upheaval_chaos.target import LinkFaultKind

GOOD = """# all that there is
title Everything  at once   # a remark
cluster members=5 components=split sync-level=2
workload rate=50 slots=4 sessions=1 keys=2
wait operations 10
inject a kill leader component=archive
wait leader other-than a
heal a
wait caught-up a
inject b slow member-1 <-> followers latency-ms=20 bytes-per-second=64000
wait seconds 2
inject c timeout leader,member-4 <-> followers timeout-ms=300 channel=log
wait moment operations=200 after-ms=50
inject d blackhole clients -> leader
begin e kill follower!a
end e
promise linearizable
promise at most one leader per term
"""


@pytest.mark.parametrize(("text", "witnesses"), [("", True), ("witnesses on\n", True), ("witnesses off\n", False)])
def test_witnesses_are_taken_unless_a_statement_turns_them_off(text: str, *, witnesses: bool) -> None:
    assert parse_scenario(f"{GOOD}{text}", name="x", where="test").witnesses is witnesses


@pytest.mark.parametrize("promise", Promise)
def test_every_promise_can_be_named_by_its_id_and_by_its_sentence(promise: Promise) -> None:
    for named in (promise, promise.sentence):
        assert parse_scenario(f"{GOOD}promise {named}\n", name="x", where="x").promises[2:] == (promise,)


def test_every_statement_is_read() -> None:
    scenario = parse_scenario(GOOD, name="all", where="all.scenario")
    assert scenario.title == "Everything  at once"
    assert scenario.cluster == ClusterSpec(5, "split", sync_level=2)
    assert (scenario.workload.rate, scenario.workload.slots, scenario.workload.keys) == (50, 4, 2)
    assert scenario.promises == (Promise.LINEARIZABLE, Promise.ONE_LEADER_A_TERM)
    assert scenario.runtimes == ("process", "docker")
    assert scenario.steps == (
        WaitOperations(10),
        Inject("a", MemberFault(MemberFaultKind.KILL, Members(Selector.LEADER), "archive")),
        WaitLeader("a"),
        Heal("a"),
        WaitCaughtUp("a"),
        Inject(
            "b",
            LinkFault(LinkFaultKind.SLOW, Members(member_id=1), Members(Selector.FOLLOWERS), True, 20, 64_000),
        ),
        WaitSeconds(2.0),
        Inject(
            "c",
            LinkFault(
                LinkFaultKind.TIMEOUT,
                Group((Members(Selector.LEADER), Members(member_id=4))),
                Members(Selector.FOLLOWERS),
                both_ways=True,
                timeout_ms=300,
                channel="log",
            ),
        ),
        WaitMoment(200, 50),
        Inject("d", LinkFault(LinkFaultKind.BLACKHOLE, Members(Selector.CLIENTS), Members(Selector.LEADER))),
        Begin("e", MemberFault(MemberFaultKind.KILL, Members(Selector.FOLLOWER, other_than="a")), is_drawn=False),
        End("e"),
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("wiat operations 10", "1:1: unknown statement 'wiat'"),
        ("witnesses of", "1:11: unknown choice 'of': use one of on, off; did you mean 'off'?"),
        ("  wait  operation 10", "1:9: unknown condition 'operation'"),
        ("wait operations ten", "1:17: number of operations must be a number"),
        (f"wait operations {'9' * 5000}", "1:17: number of operations must be a number"),
        (f"inject a kill member-{'9' * 5000}", "1:15: unknown target 'member-9"),
        ("wait operations", "1:16: number of operations is missing"),
        ("wait operations 10 more", "1:20: unexpected 'more'"),
        ("wait caught-up x", "1:16: no fault is called 'x'"),
        ("wait leader other-then x", "1:13: unknown condition of a leader 'other-then'"),
        ("inject A kill leader", "1:8: name of the fault 'A'"),
        ("inject a kil leader", "1:10: unknown fault 'kil'"),
        ("inject a kill leeder", "1:15: unknown target 'leeder'"),
        ("inject a kill member-3", "1:15: unknown member-3"),
        ("inject a kill follower!b", "1:15: no fault is called 'b'"),
        ("inject a kill victim", "1:1: victim needs the name of a fault: victim!NAME"),
        ("inject a kill victim!b", "1:15: no fault is called 'b'"),
        ("begin a kil leader", "1:9: unknown fault 'kil'"),
        ("end a", "1:5: no fault is called 'a'"),
        ("inject a kill leader component=archive", "1:22: members run their components together"),
        ("inject a blackhole leader => follower", "1:27: unknown direction '=>'"),
        ("inject a blackhole leader -> follower latency-ms=3", "1:1: blackhole has neither"),
        ("inject a blackhole leader -> follower timeout-ms=3", "1:1: blackhole has no timeout-ms"),
        ("inject a blackhole leader -> follower channel=lag", "1:1: there is no channel 'lag'"),
        (
            "inject a blackhole leader <-> follower dialled-by=me",
            "1:40: unknown dialled-by 'me': use one of source, target",
        ),
        ("inject a blackhole leader -> follower dialled-by=source", "1:1: dialled-by is about whole connections"),
        ("inject a slow leader <-> follower bytes-per-second=8000 dialled-by=source", "1:1: dialled-by is about whole"),
        ("inject a blackhole clients <-> leader dialled-by=source", "1:1: members dial each other, and clients dial"),
        ("inject a blackhole leader -> follower by=magic", "1:39: unknown by 'magic': use one of proxy, packets"),
        ("inject a slow leader -> follower latency-ms=3 by=packets", "1:1: packet filters do not support slow"),
        ("inject a blackhole leader -> follower by=packets", "1:1: a connection needs packets both ways"),
        ("inject a blackhole leader,membr-2 -> follower", "1:27: unknown target 'membr-2'"),
        ("inject a kill clients", "1:1: kill is done to members"),
        ("inject a reset leader -> follower", "1:1: a reset ends both directions"),
        ("inject a timeout leader -> follower timeout-ms=3", "1:1: a timeout ends both directions"),
        ("inject a timeout leader <-> follower", "1:1: timeout needs timeout-ms"),
        ("wait moment operations=-1", "1:13: operations must be a number from 0"),
        ("inject a slow leader -> follower", "1:1: slow needs"),
        ("inject a slow leader -> follower latency-ms=60001", "1:1: latency-ms is at most 60000, not 60001"),
        ("inject a timeout all <-> all timeout-ms=60001", "1:1: timeout-ms is at most 60000, not 60001"),
        (
            "inject a lose leader -> follower percent=100",
            "1:1: lose needs percent of 1 to 99, and no jitter-ms",
        ),
        ("inject a disorder leader -> follower", "1:1: disorder needs jitter-ms of 1 to 1000, and no percent"),
        ("inject a omit all -> all message=Votes", "1:1: omit needs message of CanvassPosition, RequestVote, Vote, "),
        ("inject a omit all -> all message=Vote frames=nak", "1:1: omit needs message and percent of 1 to 100, and "),
        (
            "inject a omit all -> all message=Vote channel=log",
            "1:1: omit needs channel=consensus, where such messages ",
        ),
        ("inject a lose all -> all percent=9 message=Vote", "1:1: lose hits datagrams, whatever they hold: "),
        ("inject a lose leader -> follower percent=5 frames=date", "1:1: unknown frames 'date': use data, setup, st"),
        ("inject a slow leader -> clients bytes-per-second=8000", "1:1: a limit of bytes-per-second towards clients"),
        ("inject a blackhole leader -> leader", "1:1: leader and leader have no link between them"),
        ("inject a blackhole member-1 <-> member-1", "1:1: member-1 and member-1 have no link"),
        ("inject a reset follower <-> follower", "1:1: follower and follower have no link"),
        ("inject a blackhole clients -> clients", "1:1: clients and clients have no link"),
        ("inject a blackhole leader -> follower channel=ingress", "1:1: channel ingress is that between clients and"),
        ("inject a blackhole clients -> leader channel=log", "1:1: channel ingress is that between clients and"),
        ("inject a reset clients <-> leader by=packets", "1:1: packet filters act between members only"),
        ("inject a slow leader -> follower latency-ms=-3", "1:34: latency-ms must be a number"),
        ("heal a", "1:6: no fault is called 'a'"),
        ("wait sent Vot", "1:11: unknown message 'Vot'"),
        ("wait sent Vote form=leader", "1:16: unknown option 'form': use one of from, to, candidateTermId"),
        ("wait sent Vote from=leeder", "1:16: unknown target 'leeder'"),
        ("wait sent Vote from=clients", "1:16: from: expected members"),
        ("wait sent Vote to=leader,clients", "1:16: to: expected members"),
        ("wait sent Vote from=victim", "1:1: victim needs the name of a fault: victim!NAME"),
        ("wait sent Vote to=leader,victim", "1:1: victim needs the name of a fault: victim!NAME"),
        ("wait sent Vote vote=yes", "1:16: unknown vote 'yes': use one of true, false"),
        ("wait sent Vote candidateTermId=x", "1:16: candidateTermId must be a number, not 'x'"),
        ("wait sent Vote from=leader to=leader", "1:1: from leader to leader: no member sends a message to itself"),
        ("wait sent Vote from=member-1 to=member-1", "1:1: from member-1 to member-1: no member sends"),
        (
            "wait sent Vote from=follower to=follower,follower",
            "1:1: from follower to follower,follower: no member sends",
        ),
        ("wait sent Vote from=member-3", "1:16: unknown member-3: this cluster has 3 members"),
        ("wait sent Vote from=backup", "1:16: unknown target 'backup'"),
        ("wait sent Vote candidateMemberId=3", "1:16: candidateMemberId: unknown member 3: this cluster has 3 members"),
        ("wait sent TerminationAck memberId=-1", "1:26: memberId: unknown member -1: this cluster has 3 members"),
        ("wait state follower-redy", "1:12: unknown state 'follower-redy': use one of init, canvass, nominate"),
        ("wait state", "1:11: state is missing"),
        ("wait state closed from=leader", "1:19: unknown option 'from': use one of of"),
        ("wait state closed of=clients", "1:19: of: expected members"),
        ("wait state closed of=member-3", "1:19: unknown member-3: this cluster has 3 members"),
        ("wait state closed as=A", "1:19: name of the member 'A': use small letters, digits and hyphens"),
        ("inject b kill victim!gone", "1:15: no fault is called 'gone'"),
        ("wait state closed of=victim", "1:1: victim needs the name of a fault: victim!NAME"),
        ("promise to be good", "1:9: unknown promise 'to be good'"),
        ("cluster members=0", "1:9: members must be a number"),
        ("cluster members=10", "1:9: a cluster has 1 to 9 members"),
        ("cluster member=3", "1:9: unknown option 'member'"),
        ("cluster members", "1:9: option members needs a value"),
        ("cluster members=3 members=5", "1:19: duplicate option members"),
        ("cluster components=apart", "1:9: unknown components 'apart'"),
        ("cluster beside=ledger", "1:9: unknown service beside another 'ledger': use one of tally"),
        ("cluster service=bank", "1:9: unknown service 'bank': use one of workbench, ledger, timers"),
        ("workload rate=fast", "1:10: rate must be a number"),
        ("title", "1:6: title is missing"),
        ("", "1:1: the scenario has no title"),
        ("title x", "1:1: the scenario never waits for operations"),
    ],
)
def test_what_is_wrong_is_named_with_line_and_column(line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_scenario(line, name="bad", where="bad.scenario")
    assert str(caught.value).startswith(f"bad.scenario:{message}")


@pytest.mark.parametrize(
    ("members", "fault", "message"),
    [
        (1, "kill follower", "a cluster of one member has no followers"),
        (1, "kill leader,followers", "a cluster of one member has no followers"),
        (1, "blackhole leader -> followers", "a cluster of one member has no followers"),
        (1, "blackhole all <-> all", "all and all have no link between them"),
        (1, "reset leader <-> running", "leader and running have no link between them"),
        (2, "blackhole follower -> followers", "follower and followers have no link between them"),
    ],
)
def test_a_fault_that_no_cluster_of_that_size_can_have_is_refused(members: int, fault: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_scenario(f"title x\ncluster members={members}\ninject x {fault}\n", name="bad", where="bad")
    assert str(caught.value) == f"bad:3:1: {message}"


@pytest.mark.parametrize("fault", ["kill leader", "blackhole clients -> all", "reset clients <-> leader"])
def test_what_one_member_can_have_is_read(fault: str) -> None:
    text = f"title x\ncluster members=1\ninject x {fault}\nwait operations 1"
    assert len(parse_scenario(text, name="x", where="x").steps) == 2


def test_links_between_victims_are_read_whoever_these_are() -> None:
    faults = "inject a kill leader\ninject b kill follower\ninject c blackhole victim!a -> victim!b\n"
    assert len(parse_scenario(f"title x\n{faults}wait operations 1", name="x", where="x").steps) == 4


@pytest.mark.parametrize(
    ("faults", "runtimes"),
    [
        (("power-cut leader",), ("simulated",)),
        (("cpu-limit leader percent=5",), ("simulated", "process", "docker")),
        (("cpu-limit leader percent=5", "disk-full follower"), ("simulated", "process")),
        (("cpu-limit leader percent=5", "power-cut follower"), ("simulated",)),
        (("cpu-limit leader percent=5", "blackhole leader <-> follower by=packets"), ("docker",)),
        (("memory-limit leader megabytes=64",), ("process", "docker")),
        (("memory-limit leader megabytes=64", "cpu-limit follower percent=5"), ("process", "docker")),
        (("memory-limit leader megabytes=64", "disk-full follower"), ("process",)),
        (("memory-limit leader megabytes=64", "blackhole leader <-> follower by=packets"), ("docker",)),
    ],
)
def test_faults_of_hosts_are_for_runtimes_that_have_all_of_them(
    faults: tuple[str, ...], runtimes: tuple[str, ...]
) -> None:
    steps = "".join(f"inject x{number} {fault}\n" for number, fault in enumerate(faults))
    assert parse_scenario(f"title x\n{steps}wait operations 1", name="x", where="x").runtimes == runtimes


@pytest.mark.parametrize("other", ["inject y power-cut follower", "invariants on"])
def test_a_limit_of_memory_is_not_combined_with_what_is_only_simulated(other: str) -> None:
    first, then = (other, "") if other.startswith("invariants") else ("", other)
    text = f"title x\n{first}\ninject x memory-limit leader megabytes=64\n{then}\nwait operations 1"
    why = "simulated members share the memory of one process, and no kernel counts theirs"
    with pytest.raises(UsageError, match=f"no runtime has all of it: memory-limit is not simulated, as {why}$"):
        parse_scenario(text, name="bad", where="bad")


@pytest.mark.parametrize(
    ("members", "ends", "why"),
    [
        (1, "from=follower", "a cluster of one member has no followers"),
        (1, "", "from all to all: no member sends a message to itself"),
        (1, "from=leader", "from leader to all: no member sends a message to itself"),
        (2, "from=follower to=followers", "from follower to followers: no member sends a message to itself"),
    ],
)
def test_a_message_that_no_cluster_of_that_size_sends_is_refused(members: int, ends: str, why: str) -> None:
    text = f"title x\ncluster members={members}\nwait sent Vote {ends}\nwait operations 1"
    with pytest.raises(ScenarioError, match=f"3:1: {why}$"):
        parse_scenario(text, name="x", where="x")


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("wait sent Vote from=follower!a to=follower!a", "no member sends a message to itself"),
        ("inject b blackhole follower!a -> follower!a", "have no link between them"),
        ("inject b lose follower!a -> follower!a percent=5", "have no link between them"),
    ],
)
def test_a_follower_that_spares_the_same_victims_is_the_same_one(step: str, why: str) -> None:
    with pytest.raises(ScenarioError, match=f"3:1: .*{why}$"):
        parse_scenario(f"title x\ninject a kill follower\n{step}\nwait operations 1", name="x", where="x")


@pytest.mark.parametrize(
    "step",
    [
        "wait sent Vote from=leader to=member-0",
        "wait sent Vote from=follower to=follower!a",
        "wait sent Vote from=victim!a to=victim!a candidateMemberId=02",
        "inject b blackhole follower -> follower!a",
        "inject b reset member-1,follower!a <-> follower!a",
    ],
)
def test_ends_that_may_be_different_members_are_read(step: str) -> None:
    text = f"title x\ninject a kill follower\n{step}\nwait operations 1"
    assert len(parse_scenario(text, name="x", where="x").steps) == 3


@pytest.mark.parametrize(("value", "read"), [("007", "7"), ("-0", "0"), ("-1", "-1")])
def test_a_number_of_a_message_is_read_as_messages_have_it(value: str, read: str) -> None:
    text = f"title x\nwait sent Vote candidateTermId={value}\nwait operations 1"
    step = parse_scenario(text, name="x", where="x").steps[0]
    assert isinstance(step, WaitSent)
    assert step.fields == (("candidateTermId", read),)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("inject a kill follower\nwait state closed as=a", "3:19: as: a fault is called 'a'"),
        ("wait state closed as=a\ninject a kill follower", "3:8: a member is called 'a'"),
    ],
)
def test_a_name_is_that_of_a_fault_or_of_a_member(lines: str, why: str) -> None:
    with pytest.raises(ScenarioError, match=why):
        parse_scenario(f"title x\n{lines}\nwait operations 1", name="x", where="x")


def test_a_member_that_entered_a_state_is_a_target_by_its_name() -> None:
    text = "title x\nwait state closed as=a\nwait state canvass as=a\nbegin b isolate-it\nwait operations 1"
    text = text.replace("isolate-it", "blackhole victim!a <-> all!a")
    assert len(parse_scenario(text, name="x", where="x").steps) == 4


def test_messages_and_states_can_be_waited_for_where_they_are_read_while_they_are_written() -> None:
    for step in ("sent Vote", "state canvass"):
        text = f"title x\nwait {step}\nwait operations 1"
        assert parse_scenario(text, name="x", where="x").runtimes == ("simulated", "process")


def test_a_link_that_depends_on_who_leads_is_read() -> None:
    text = "title x\ninject x blackhole leader -> member-0\nwait operations 1"
    assert len(parse_scenario(text, name="x", where="x").steps) == 2


@pytest.mark.parametrize("statement", ["cluster members=1", "workload rate=900"])
@pytest.mark.parametrize("step", ["inject a kill member-2", "wait operations 5", "ask snapshot"])
def test_what_holds_from_the_beginning_comes_before_the_steps(statement: str, step: str) -> None:
    what = statement.split()[0]
    with pytest.raises(UsageError, match=f"bad:3:1: the {what} comes before the first step"):
        parse_scenario(f"title x\n{step}\n{statement}\nwait operations 5\n", name="bad", where="bad")


@pytest.mark.parametrize(
    "statement",
    ["title y", "cluster service=ledger", "workload rate=900", "witnesses off", "invariants on"],
)
def test_no_statement_about_the_whole_text_replaces_another(statement: str) -> None:
    what = statement.split()[0]
    text = f"title x\ncluster members=5\nworkload keys=2\nwitnesses on\ninvariants on\n{statement}\nwait operations 5\n"
    with pytest.raises(UsageError, match=f"bad:6:1: duplicate {what}: the text has one already"):
        parse_scenario(text, name="bad", where="bad")


def test_a_fault_that_is_there_cannot_be_put_in_again() -> None:
    text = "title x\ninject a kill leader\ninject a kill leader"
    with pytest.raises(UsageError, match="bad:3:8: fault 'a' is already active"):
        parse_scenario(text, name="bad", where="bad")


def test_one_cluster_is_broken_by_proxies_or_by_packets() -> None:
    text = "title x\ninject a blackhole leader -> follower\ninject b reset leader <-> follower by=packets"
    with pytest.raises(UsageError, match="bad:3:36: the links of one cluster are broken by proxy or by packets"):
        parse_scenario(text, name="bad", where="bad")


def test_a_split_member_can_have_limits_and_no_other_fault_of_its_host() -> None:
    text = "title x\ncluster components=split\nwait operations 1\ninject a "
    for limit in ("cpu-limit leader percent=5", "memory-limit leader megabytes=64"):
        limited = parse_scenario(f"{text}{limit}", name="x", where="x")
        assert limited.runtimes == ("process", "docker")
    with pytest.raises(UsageError, match=r"bad:4:.*leave out split"):
        parse_scenario(f"{text}disk-full leader", name="bad", where="bad")


def test_filters_of_packets_need_containers() -> None:
    text = "title x\nwait operations 1\ninject b reset leader <-> follower by=packets"
    assert parse_scenario(text, name="x", where="x").runtimes == ("docker",)


def test_the_library_can_be_read() -> None:
    names = scenario_names()
    assert {"leader-killed", "one-way-partition", "component-killed", "slow-link"} <= set(names)
    assert all(load_scenario(name).title for name in names)


def test_a_wrong_name_and_a_wrong_runtime_are_one_line_and_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "leader-kiled"]) == 2
    assert main(["run", "component-killed", "--runtime", "simulated"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("upheaval: unknown scenario 'leader-kiled': use one of all-killed-and-restarted")
    assert lines[0].endswith("; did you mean 'leader-killed'?")
    assert lines[1] == (
        "upheaval: scenario component-killed does not run on the simulated runtime: use --runtime process, docker"
    )


def test_a_scenario_file_that_does_not_exist_is_one_short_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("nope.scenario", str(tmp_path / "nope")):
        assert main(["run", name]) == 2
        assert capsys.readouterr().err == f"upheaval: unknown scenario {name!r}: no such file\n"
    assert main(["run", "leader-kiled.scenario"]) == 2
    assert capsys.readouterr().err.endswith("no such file; did you mean 'leader-killed'?\n")


@pytest.mark.parametrize(
    ("line", "runtime", "others"),
    [
        ("invariants  on", "process", "simulated"),
        ("invariants  on", "docker", "simulated"),
        ("inject  full disk-full leader", "docker", "simulated, process"),
    ],
)
def test_what_members_cannot_is_refused_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, runtime: str, others: str
) -> None:
    script = tmp_path / "short.scenario"
    script.write_text(f"title x\n# invariants on\n{line} # as campaigns do\nwait operations 1\n")
    assert main(["run", str(script), "--runtime", runtime, "--dir", str(tmp_path / "run")]) == 2
    place = f"scenario short does not run on the {runtime} runtime"
    statement = " ".join(line.split())
    assert capsys.readouterr().err == f"upheaval: {place} because of `{statement}` (line 3): use --runtime {others}\n"
    assert not (tmp_path / "run").exists()


def test_what_is_not_simulated_is_refused_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "short.scenario"
    script.write_text("title x\ninject x memory-limit leader megabytes=64\nwait operations 1\n")
    assert main(["run", str(script), "--runtime", "simulated", "--dir", str(tmp_path / "run")]) == 2
    reason = "memory-limit is not simulated, as simulated members share the memory of one process"
    use = "does not run on the simulated runtime: use --runtime process, docker"
    assert capsys.readouterr().err.startswith(f"upheaval: scenario short {use} ({reason}, ")
    assert not (tmp_path / "run").exists()


def test_faults_of_datagrams_name_the_system_that_sends_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "short.scenario"
    script.write_text("title x\ninject x lose leader -> followers percent=10\nwait operations 1\n")
    assert main(["run", str(script), "--runtime", "simulated", "--dir", str(tmp_path / "run")]) == 2
    use = "does not run on the simulated runtime: use --runtime process, docker with --system aeron"
    assert capsys.readouterr().err == f"upheaval: scenario short {use}\n"


def test_a_folder_is_no_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "short.scenario"
    folder.mkdir()
    assert main(["run", str(folder), "--runtime", "simulated"]) == 2
    assert capsys.readouterr().err == f"upheaval: unknown scenario '{folder}': a folder\n"


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("wiat operations 10", "wait"),
        ("inject a kil leader", "kill"),
        ("inject a kill leeder", "leader"),
        ("inject a kill membr-2", "member-2"),
        ("inject a kill leader componnet=archive", "component"),
        ("inject a kill leader component=archiv", "archive"),
        ("inject a blackhole leader -> follower channel=catchpu", "catchup"),
        ("cluster member=3", "members"),
        ("cluster service=workbnech", "workbench"),
        ("promise run-convergd", "run-converged"),
        ("backup start source=leader", "LEADER"),
    ],
)
def test_the_word_that_was_meant_is_named(line: str, meant: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"; did you mean {meant!r}?")):
        parse_scenario(f"title t\n{line}\nwait operations 1", name="s", where="s")


def test_orders_are_read_and_the_load_is_for_the_service() -> None:
    text = "title t\ncluster service=ledger\nwait operations 1\nsnapshot\nsuspend\nresume\nshutdown\nstart\n"
    scenario = parse_scenario(text, name="orders", where="s")
    assert scenario.steps[1:] == tuple(map(GiveCommand, ("snapshot", "suspend", "resume", "shutdown", "start")))
    assert (scenario.cluster.service, scenario.workload.service) == ("ledger", "ledger")


def test_a_leader_is_asked_for_commands() -> None:
    text = "title t\nwait operations 1\nask snapshot\nask suspend\nask resume\nask shutdown\nstart\nask abort\nstart\n"
    scenario = parse_scenario(text, name="s", where="s")
    asked = (AdminCommand.SNAPSHOT, AdminCommand.SUSPEND, AdminCommand.RESUME, AdminCommand.SHUTDOWN)
    ends = (GiveCommand(AdminCommand.START), AskFor(AdminCommand.ABORT), GiveCommand(AdminCommand.START))
    assert scenario.steps[1:] == (*map(AskFor, asked), *ends)
    with pytest.raises(UsageError, match=r"s:2:5: unknown command 'start': use one of .*, shutdown, abort"):
        parse_scenario("title t\nask start\nwait operations 1\n", name="s", where="s")


def test_a_service_that_answers_nobody_stands_beside_another() -> None:
    text = "title t\ncluster service=ledger beside=tally,tally\nwait operations 1\n"
    cluster = parse_scenario(text, name="s", where="s").cluster
    assert (cluster.service, cluster.more_services) == ("ledger", ("tally", "tally"))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("shutdown", "s:3:1: the cluster ends by shutdown: write `start` after it"),
        ("abort\nsnapshot", "s:4:1: no member takes snapshot after abort: write `start` before it"),
        ("ask shutdown", "s:3:1: the cluster ends by shutdown: write `start` after it"),
        ("ask abort\nask snapshot", "s:4:5: no member takes snapshot after abort: write `start` before it"),
        ("snapshot now", "s:3:10: unexpected 'now'"),
    ],
)
def test_orders_that_nobody_could_take_are_refused(lines: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        parse_scenario(f"title t\nwait operations 1\n{lines}", name="orders", where="s")


def test_what_is_done_to_the_backup_is_read() -> None:
    text = "title t\nbackup start source=LEADER\nwait backup caught-up\nbackup kill\nbackup start\nwait operations 1\n"
    steps = parse_scenario(text, name="t", where="t").steps
    assert steps[:4] == (
        KeepCompanion("start", "LEADER"),
        WaitCompanion(),
        KeepCompanion("kill"),
        KeepCompanion("start"),
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("backup kill", "2:8: no backup is running: cannot kill it"),
        ("backup start\nbackup start", "3:8: the backup is already running"),
        ("backup start\nbackup stop\nwait backup caught-up", "4:13: no backup runs here"),
        ("backup start\nwait backup", "3:12: condition of a backup is missing"),
        ("backup start\nwait backup leader", "3:13: unknown condition of a backup 'leader'"),
        ("backup start source=NOBODY", "2:14: unknown source 'NOBODY': use one of ANY, LEADER, FOLLOWER"),
        ("backup start\nbackup stop source=ANY", "3:13: unknown option 'source'"),
        ("backup look", "2:8: unknown action 'look': use one of start, stop, kill"),
    ],
)
def test_what_cannot_be_done_to_the_backup_is_refused(lines: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"t:{message}")):
        parse_scenario(f"title t\n{lines}\nwait operations 1\n", name="t", where="t")


@pytest.mark.parametrize("kind", DatagramFaultKind)
def test_what_was_done_to_datagrams_is_written_as_the_statement_that_does_it(kind: DatagramFaultKind) -> None:
    of_frames: dict[str, Any] = {"channel": "log", "frames": "nak", "stream_id": 100}
    options: dict[DatagramFaultKind, dict[str, Any]] = {
        DatagramFaultKind.DISORDER: {"jitter_ms": 30, **of_frames},
        DatagramFaultKind.OMIT: {"percent": 20, "channel": "consensus", "message": "Vote"},
    }
    ends = Members(member_id=0), Members(member_id=2)
    fault = DatagramFault(kind, *ends, both_ways=True, **options.get(kind, {"percent": 20, **of_frames}))
    assert fault_of(fault.statement) == fault
