"""Ends a whole cluster, as an operator does, so that its run can be judged."""

import contextlib
from collections.abc import Callable
from typing import Final

from upheaval.cluster import end_run, needs_closing_snapshot
from upheaval.errors import HarnessError
from upheaval.runtimes.live import AnyCluster

CONVERGE_TIMEOUT_S: Final = 15.0
"""How long the members may take to converge before they end, in seconds."""


def end_cluster(cluster: AnyCluster, say: Callable[[str], None]) -> bool:
    """Let the members converge, if all of them run, and end everything. Returns whether any of them ran."""
    was_running = cluster.is_running()
    if was_running:
        _converge(cluster, say)
    cluster.down()
    return was_running


def _converge(cluster: AnyCluster, say: Callable[[str], None]) -> None:
    """Let the members converge. If they cannot, they must end all the same, so errors are ignored."""
    ended = [member_id for member_id in cluster.member_ids if not cluster.member(member_id).is_running()]
    if ended:
        ids = ", ".join(map(str, ended))
        say(f"members not running: {ids}; a run that ends like this is never valid, see `upheaval start`")
        return
    needs = needs_closing_snapshot(cluster.config.service, has_commands=any(cluster.run.read_controls()))
    with contextlib.suppress(HarnessError):
        end_run(cluster, takes_snapshot=needs, timeout_s=CONVERGE_TIMEOUT_S)
