"""A member that the kernel ends for want of memory, under a service that holds more with each request."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.runtimes.live import AnyCluster
from upheaval.testing.cluster import Cluster
from upheaval.testing.live import LiveBackend
from upheaval.waits import wait_until
from upheaval_chaos import host_faults
from upheaval_chaos.driver import FaultDriver
from upheaval_chaos.faults import exactly
from upheaval_chaos.host_faults import MIB, HostFault, HostFaultKind, ended_for_memory

SERVICE: Final = "hoard:Hoard"
_SOURCE: Final = """
from upheaval import ClusteredService


class Hoard(ClusteredService):
    def __init__(self):
        self.held = []

    def on_start(self, cluster, snapshot_image):
        for _ in range(0 if snapshot_image is None else int(bytes(snapshot_image.read()))):
            self.held.append(b"x" * (1 << 17))

    def on_session_message(self, session, timestamp, payload, position):
        self.held.append(b"x" * (1 << 17))
        session.respond(str(len(self.held)).encode())

    def on_take_snapshot(self, publication):
        publication.offer(str(len(self.held)).encode())
"""
_PATIENT_S: Final = 120.0
_BETWEEN_S: Final = 0.02
_ENOUGH: Final = 110
"""A run with fewer operations is not judged."""


def source_in(folder: Path) -> Path:
    folder.mkdir()
    (folder / "hoard.py").write_text(_SOURCE)
    return folder


def require_one_ended(
    cluster: Cluster, used: Callable[[AnyCluster, int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limit a follower to little more than it uses, until the kernel ends it. It comes back, and the run is valid."""
    for name in ("TAKES_EFFECT_S", "COMES_BACK_S"):
        monkeypatch.setattr(host_faults, name, _PATIENT_S)
    assert isinstance(cluster._backend, LiveBackend)
    target = cluster._backend.target
    victim = next(member_id for member_id in target.member_ids if member_id != target.leader())
    asked, is_over = 0, threading.Event()

    def ask() -> None:
        nonlocal asked
        client = cluster.client()
        while not is_over.wait(_BETWEEN_S):
            client.request(b"more")
            asked += 1

    load = threading.Thread(target=ask)
    load.start()
    try:
        wait_until(lambda: asked >= 10, timeout_s=_PATIENT_S, describe=lambda: f"{asked} answers")
        fault = cluster.chaos.inject(f"memory-limit member-{victim} megabytes={used(target, victim) // MIB + 3}")
        assert target.spared == {victim}
        node = target.node(victim)
        wait_until(lambda: not node.incarnation(), timeout_s=_PATIENT_S, describe=lambda: "the kernel ends no member")
        fault.heal()
        assert not target.spared
        cluster.wait_until_caught_up(victim, _PATIENT_S)
        wait_until(lambda: asked >= _ENOUGH, timeout_s=_PATIENT_S, describe=lambda: f"{asked} answers")
    finally:
        is_over.set()
        load.join()
    report = cluster.assert_valid()
    (record,) = cluster.run.read_faults()
    assert ended_for_memory(record).keys() == {victim}, record
    assert report.finding(Promise.NO_UNEXPLAINED_END).verdict is Verdict.VALID


def require_refused(cluster: Cluster) -> None:
    """A limit that is far below what a member uses takes nothing and says what to use."""
    assert isinstance(cluster._backend, LiveBackend)
    target = cluster._backend.target
    before = target.node(0).incarnation()
    driver = FaultDriver(target, lambda _: None)
    proof = driver.inject("x", HostFault(HostFaultKind.MEMORY_LIMIT, exactly([0]), 8))
    assert not proof.holds
    assert proof.evidence.startswith("memory-limit: member 0 uses ")
    assert proof.evidence.endswith(" or more, not 8")
    assert driver.heal("x").holds
    assert target.node(0).incarnation() == before
