"""The bank of `examples/bank`, except that the leader's service ends its member when it is asked to.

No other service does, and none does so in a replay: the state of all members stays the same. A copy of the bank is
beside this file where it runs.
"""

import json
from typing import Any

from bank.service import Bank

from upheaval_node.errors import TerminationError
from upheaval_node.service.api import ClientSession, ClusterRole, SnapshotImage


class QuittingBank(Bank):  # type: ignore[misc] - the example has no types
    cluster: Any

    def on_start(self, cluster: Any, snapshot_image: SnapshotImage | None) -> None:
        self.cluster = cluster
        super().on_start(cluster, snapshot_image)

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: memoryview, position: int
    ) -> None:
        if json.loads(bytes(payload))["do"] == "quit" and self.cluster.role is ClusterRole.LEADER:
            raise TerminationError("the service was asked to quit", expected=False)
        super().on_session_message(session, timestamp, payload, position)
