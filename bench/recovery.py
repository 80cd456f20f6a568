"""`python bench/recovery.py`: how fast a member gets what it missed, and how fast it replays its own log.

Catch-up: three members as processes with Aeron's settings; one is killed, the others take a log of 1000-byte messages,
and the one that comes back reads it from the leader, records it and applies it. Replay: a single member is killed and
started on a log of 64-byte messages, which module and service read from the archive. Both are measured in the trace of
the member: from the election state in which it began to the one in which it was done. Beside the time there is the
processor time of the members, because two cores that others use too say little.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil

from bench import own
from upheaval.runtimes.process import ProcessCluster

GOAL_CATCH_UP_MB_S = 100.0
CATCH_UP_MESSAGE_LENGTH = 1000
WINDOW = 512
PATIENCE_S = 300.0
LOOK_S = 0.02


def trace_events(cluster: ProcessCluster, member_id: int, *, after_epoch_ms: int) -> Iterator[dict[str, object]]:
    """What a member wrote down since a moment."""
    for line in (cluster.member(member_id).folder / "trace.jsonl").read_text().splitlines():
        event: dict[str, object] = json.loads(line)
        if int(str(event["epoch_ms"])) >= after_epoch_ms:
            yield event


def state_times(events: Iterator[dict[str, object]]) -> list[tuple[str, float]]:
    """Election states in their order, with the second in which each was entered."""
    return [(str(e["state"]), int(str(e["ts"])) / 1e9) for e in events if e["event"] == "election_state"]


def span(states: Sequence[tuple[str, float]], first: str) -> float:
    """Seconds from the first time that a state was entered to the end of the election."""
    begin = next(second for state, second in states if state == first)
    return states[-1][1] - begin


def cpu_seconds(cluster: ProcessCluster, member_id: int) -> float:
    times = [psutil.Process(found.pid).cpu_times() for found in cluster.member(member_id).node.processes()]
    return sum(each.user + each.system for each in times)


def await_caught_up(cluster: ProcessCluster, member_id: int, position: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        status = cluster.status()[member_id]
        if status.commit_position >= position and status.election_state == "CLOSED":
            return
        time.sleep(LOOK_S)
    raise RuntimeError(f"member {member_id} does not get to {position}: {cluster.status()[member_id]}")


def measure_catch_up(megabytes: int) -> dict[str, float]:
    """MB of log a second, and of processor time of the follower and of the leader."""
    with own.running_cluster(profile="aeron", sync_level=0) as cluster:
        client = own.LoadClient(cluster, WINDOW, CATCH_UP_MESSAGE_LENGTH)
        client.send(100)
        leader_id = client.session.leader_member_id
        late = next(member_id for member_id in range(3) if member_id != leader_id)
        cluster.member(late).kill()
        begin = cluster.status()[leader_id].append_position
        client.send(megabytes * 1_000_000 // (CATCH_UP_MESSAGE_LENGTH + 96))
        client.session.close()
        end = cluster.status()[leader_id].append_position
        leader_cpu = cpu_seconds(cluster, leader_id)
        started_ms = time.time_ns() // 1_000_000
        cluster.member(late).start()
        await_caught_up(cluster, late, end)
        follower_cpu = cpu_seconds(cluster, late)
        leader_cpu = cpu_seconds(cluster, leader_id) - leader_cpu
        seconds = span(state_times(trace_events(cluster, late, after_epoch_ms=started_ms)), "FOLLOWER_CATCHUP_INIT")
        length = (end - begin) / 1e6
        return {
            "mb": length,
            "mb_s": length / seconds,
            "mb_per_follower_cpu_s": length / follower_cpu,
            "mb_per_leader_cpu_s": length / leader_cpu,
        }


def measure_replay(messages: int) -> dict[str, float]:
    """Messages a second that module and service read at the start of a member, and of its processor time."""
    with own.running_cluster(profile="aeron", sync_level=0, members=1) as cluster:
        client = own.LoadClient(cluster, WINDOW)
        client.send(messages)
        client.session.close()
        end = cluster.status()[0].append_position
        cluster.member(0).kill()
        started_ms = time.time_ns() // 1_000_000
        cluster.member(0).start()
        await_caught_up(cluster, 0, end)
        cpu = cpu_seconds(cluster, 0)
        states = state_times(trace_events(cluster, 0, after_epoch_ms=started_ms))
        seconds = dict(states)["LEADER_INIT"] - dict(states)["LEADER_REPLAY"]
        return {
            "messages": client.load.answered,
            "messages_s": client.load.answered / seconds,
            "messages_per_cpu_s": client.load.answered / cpu,
            "mb_s": end / 1e6 / seconds,
        }


def medians(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(each[name] for each in rounds), 1) for name in rounds[0]}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=300, help="log that the late member has to get")
    parser.add_argument("--messages", type=int, default=1_000_000, help="messages in the log that is replayed")
    options = parser.parse_args(arguments)
    figures = {
        "catch_up": medians([measure_catch_up(options.megabytes) for _ in range(options.rounds)])
        | {"goal_mb_s": GOAL_CATCH_UP_MB_S},
        "replay": medians([measure_replay(options.messages) for _ in range(options.rounds)]),
    }
    print(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
