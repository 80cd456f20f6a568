"""What happens to datagrams in a network of its own, as JSON: run in the container of the agent, by its Python.

Twenty numbered datagrams go from one address of the loopback network to a port of another one, which answers each. For
each toxic: the answers as they came, the times of the first and the last, and what the kernel counted behind the queue.
"""

import contextlib
import json
import re
import socket
import struct
import subprocess
import threading
import time
import urllib.request

from upheaval_chaos.errors import EnvironmentFault
from upheaval_chaos.toxiproxy import StandardToxiproxy

API = "127.0.0.1:8474"
SOURCE, TARGET = "127.0.0.2", ("127.0.0.1", 9003)
COUNT, SIZE = 20, 200
NAME, UP, DOWN = "p", "upstream", "downstream"
RULE = ["INPUT", "-s", SOURCE, "-p", "udp", "--dport", str(TARGET[1])]
DATA, TEMPLATE_ID = 1, 52
FRAME = struct.pack("<iBBH", SIZE, 0, 0xC0, DATA)
MESSAGE = bytes(23) + struct.pack("<HHHH", 0, TEMPLATE_ID, 111, 0)
"""What follows the number of each, up to the header of a message."""
ALL, NONE, TWICE, SOME = COUNT, 0, 2 * COUNT, -1
TOXICS = {
    "none": (None, ALL),
    "cut": (("timeout", UP, {"timeout": 0}, 1.0), NONE),
    "answers cut": (("timeout", DOWN, {"timeout": 0}, 1.0), NONE),
    "half dropped": (("timeout", UP, {"timeout": 0}, 0.5), SOME),
    "setups cut": (("timeout", UP, {"timeout": 0, "frame_type": 5}, 1.0), ALL),
    "data cut": (("timeout", UP, {"timeout": 0, "frame_type": 1}, 1.0), NONE),
    "late": (("latency", UP, {"latency": 100}, 1.0), ALL),
    "answers late": (("latency", DOWN, {"latency": 100}, 1.0), ALL),
    "in disorder": (("latency", UP, {"latency": 60, "jitter": 50}, 1.0), ALL),
    "twice": (("duplicate", UP, {}, 1.0), TWICE),
    "answers twice": (("duplicate", DOWN, {}, 1.0), TWICE),
    "omitted": (("omit", UP, {"template_id": TEMPLATE_ID}, 1.0), ALL),
    "other messages omitted": (("omit", UP, {"template_id": TEMPLATE_ID + 1}, 1.0), ALL),
    "throttled": (("bandwidth", UP, {"rate": 20}, 1.0), ALL),
}
"""Each with how many answers come."""


def answer(receiver: socket.socket) -> None:
    while True:
        data, sender = receiver.recvfrom(65536)
        receiver.sendto(data, sender)


def bound(address: tuple[str, int]) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(address)
    return made


def counted() -> int:
    """Since the last time."""
    listed = subprocess.run(["iptables", "-w", "-n", "-v", "-x", "-Z", "-L", "INPUT"], capture_output=True, check=True)
    (line,) = (line for line in listed.stdout.decode().splitlines() if SOURCE in line)
    return int(line.split()[0])


def taken() -> int:
    """Datagrams that came to the proxy so far."""
    with urllib.request.urlopen(f"http://{API}/metrics") as answered:
        text = answered.read().decode()
    found = re.search(rf'received_datagrams_total{{direction="{UP}".*}} (\d+)', text)
    assert found
    return int(found[1])


def seen(expected: int) -> dict[str, object]:
    before = taken()
    with bound((SOURCE, 0)) as asker:
        asker.connect(TARGET)
        begin, came, types = time.monotonic(), [], set()
        for number in range(COUNT):
            asker.send((FRAME + bytes([number]) + MESSAGE).ljust(SIZE, b"\0"))
        while taken() < before + COUNT:
            # Each look is a request, which takes its time.
            pass
        passed = counted() if expected == SOME else None
        asker.settimeout(20)
        while len(came) < (expected if passed is None else passed):
            answered = asker.recv(65536)
            came.append(answered[len(FRAME)])
            types.add(answered[6])
            if len(came) == 1:
                first = time.monotonic() - begin
        took = time.monotonic() - begin
        # What comes besides is too much.
        asker.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            came.append(asker.recv(65536)[len(FRAME)])
    return {
        "came": came,
        "types": sorted(types),
        "first": first if came else None,
        "took": took,
        "counted": passed or counted(),
    }


def main() -> None:
    api = StandardToxiproxy(API)
    deadline = time.monotonic() + 20
    while True:
        try:
            api.version()
            break
        except EnvironmentFault:
            assert time.monotonic() < deadline
    receiver = bound(TARGET)
    threading.Thread(target=answer, args=(receiver,), daemon=True).start()
    api.create(NAME, "{}:{}".format(*TARGET), f"{SOURCE}:0", protocol="udp")
    subprocess.run(["iptables", "-w", "-A", *RULE], check=True)
    results = {}
    for name, (toxic, expected) in TOXICS.items():
        if toxic is not None:
            kind, stream, attributes, toxicity = toxic
            api.add_toxic(NAME, kind, stream, attributes, toxicity)
        results[name] = seen(expected)
        if toxic is not None:
            api.remove_toxic(NAME, kind, stream)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
