"""`python bench/tls.py`: what TLS costs, as ratios of throughput, latency and processor time.

Three members as processes with Aeron's settings, once plain and once with mutual TLS, in turn; a client in this process
keeps a window of 64-byte echoes in flight. Besides, one operation at a time (window 1), which shows what a round trip
costs more, and what one handshake takes of both ends' processor time. Only the ratios mean anything: they are of pairs
of rounds that ran one after the other.
"""

import argparse
import json
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil

from bench import own
from bench.figures import Figures, from_latencies
from upheaval.security import create_for_cluster, files_of
from upheaval_node.runtime.tls import TlsIdentity

WINDOWS = (256, 1)
HANDSHAKES = 200


def one_round(window: int, seconds: float, tls: Path | None) -> tuple[Figures, float]:
    """Throughput and latency, and microseconds of processor time of the members for each answer."""
    with own.running_cluster(profile="aeron", sync_level=0, tls=tls) as cluster:
        members = [psutil.Process(found.pid) for member in cluster.members for found in member.node.processes()]
        client = own.LoadClient(cluster, window)
        before = own.cpu_seconds(members)
        client.run(seconds)
        used = own.cpu_seconds(members) - before
        return from_latencies(client.load.latencies_ms, seconds), used / client.load.answered * 1e6


def handshake_ms(certificates: Path) -> float:
    """Processor time of both ends together, in memory."""
    here = TlsIdentity(files_of(certificates, "client"))
    there = TlsIdentity(files_of(certificates, "member-0"))
    begin = time.process_time()
    for _ in range(HANDSHAKES):
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = here.make(to_client, to_server, is_server=False)
        server = there.make(to_server, to_client, is_server=True)
        for end in (client, server, client, server):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return (time.process_time() - begin) / HANDSHAKES * 1e3


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What TLS costs.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-tls-", dir="/var/tmp") as scratch:
        certificates = Path(scratch) / "certificates"
        create_for_cluster(certificates, 3)
        for window in WINDOWS:
            ratios: list[dict[str, float]] = []
            for number in range(options.rounds):
                plain, plain_cpu = one_round(window, options.seconds, None)
                secure, secure_cpu = one_round(window, options.seconds, certificates)
                ratios.append(
                    {
                        "throughput": secure.per_second / plain.per_second,
                        "p50": secure.p50_ms / plain.p50_ms,
                        "p99": secure.p99_ms / plain.p99_ms,
                        "members_cpu_per_answer": secure_cpu / plain_cpu,
                    }
                )
                print(json.dumps({"window": window, "round": number, **ratios[-1]}), flush=True)
                print(json.dumps({"plain": plain.as_dict(), "tls": secure.as_dict()}), flush=True)
            medians = {name: round(statistics.median(each[name] for each in ratios), 3) for name in ratios[0]}
            print(json.dumps({"window": window, "medians": medians}), flush=True)
        print(json.dumps({"handshake_ms_of_both_ends": round(handshake_ms(certificates), 2)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
