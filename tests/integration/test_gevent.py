"""The blocking client under gevent's monkey patching, as locust runs it: many greenlets, a client each."""

import json
import subprocess
import sys

import pytest

from .conftest import NewCluster

GREENLETS = 8
APPENDS = 25

SCRIPT = """
from gevent import monkey
monkey.patch_all()
import json, sys
import gevent
from upheaval_node.client.driver import BlockingClient

endpoints, greenlets, appends = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
order = []

def work(number):
    with BlockingClient(endpoints, timeout=60) as client:
        for value in range(appends):
            client.append("k", b"%d-%d" % (number, value))
            order.append(number)

gevent.joinall([gevent.spawn(work, number) for number in range(greenlets)], raise_error=True)
with BlockingClient(endpoints, timeout=60) as client:
    values = [value.decode() for value in client.read_list("k")]
switches = sum(a != b for a, b in zip(order, order[1:]))
print(json.dumps({"values": values, "switches": switches}))
"""


@pytest.mark.heavy
def test_greenlets_share_a_thread_and_every_client_gets_its_answers(new_cluster: NewCluster) -> None:
    cluster = new_cluster(members=1)
    cluster.up()
    endpoints = ",".join(f"{member}={endpoint}" for member, endpoint in cluster.ingress_endpoints().items())
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, endpoints, str(GREENLETS), str(APPENDS)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sorted(found["values"]) == sorted(f"{n}-{v}" for n in range(GREENLETS) for v in range(APPENDS))
    for number in range(GREENLETS):
        own = [value for value in found["values"] if value.startswith(f"{number}-")]
        assert own == [f"{number}-{v}" for v in range(APPENDS)]
    # A client that waits must let the others run: otherwise each greenlet would finish before the next one begins.
    assert found["switches"] > GREENLETS
