"""Nodes with one line changed, and a custom service on them: the judge names what the log has not as it was asked for.

All members are wrong alike, so that states and logs agree. Only the service's own code says what it asked for.
"""

import importlib
import json
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from support.own_services import SERVICES, class_of, importable
from upheaval import Cluster, OutcomeUnknown, Verdict
from upheaval.checkers.promises import Promise

pytestmark = pytest.mark.pure

REQUESTS = 130
PAUSE_S = 0.04
"""Between requests: they last so long that what is late can be seen to be late."""


SELDOM = ("timer-fires-40-ms-early", "every-seventh-service-message-garbled")


@pytest.mark.parametrize(
    ("name", "planted", "says"),
    [
        pytest.param(name, planted, says, id=planted, marks=pytest.mark.nightly if planted in SELDOM else ())
        for name, planted, says in (
            ("limiter", "every-seventh-timer-lost", "has not fired by position"),
            ("limiter", "timer-fires-twice", "it fired last at position"),
            ("limiter", "timer-fires-40-ms-early", " ms before its deadline"),
            ("limiter", "timer-fires-5-s-late", "has not fired by position"),
            ("transfers", "every-seventh-service-message-lost", "and lacks the one that a replay offers before it"),
            ("transfers", "every-seventh-service-message-garbled", "and what a replay offers is"),
        )
    ],
)
def test_a_changed_node_is_named_with_a_custom_service(name: str, planted: str, says: str, tmp_path: Path) -> None:
    source = SERVICES / "right"
    with (
        importable(source),
        Cluster(class_of(name), source, runtime="simulated", planted=planted, folder=tmp_path / "run") as cluster,
    ):
        draw = importlib.import_module(name).draw
        client, random = cluster.client(timeout_s=0.5), Random(name)
        for number in range(REQUESTS):
            # A service that waits for a message which is lost does not answer.
            with suppress(OutcomeUnknown):
                client.request(json.dumps({"id": str(number), **draw(random)}).encode())
            client.wait(PAUSE_S)
        report = cluster.verify()
    finding = report.finding(Promise.SNAPSHOT_IS_REPLAY)
    assert finding.verdict is Verdict.INVALID, report
    assert says in finding.evidence
