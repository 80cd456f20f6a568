"""`Chaos`: what can be done to the members of a cluster, under one name and written down as faults of the run."""

from upheaval.testing.cluster import Cluster


class Chaos:
    """A thin handle; the cluster does it and notes the proof."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def kill(self, member_id: int, component: str | None = None) -> None:
        self._cluster.kill(member_id, component)

    def stop(self, member_id: int) -> None:
        self._cluster.stop(member_id)

    def start(self, member_id: int) -> None:
        self._cluster.start(member_id)

    def pause(self, member_id: int) -> None:
        self._cluster.pause(member_id)

    def resume(self, member_id: int) -> None:
        self._cluster.resume(member_id)

    def restart(self, member_id: int) -> None:
        """Let the member end, start it again, and wait until it has caught up."""
        self._cluster.stop(member_id)
        self._cluster.start(member_id)
        self._cluster.wait_until_caught_up(member_id)

    def kill_leader(self) -> int:
        """Kill the member that leads, and say which one that was."""
        leader = self._cluster.wait_until_leader()
        self._cluster.kill(leader)
        return leader

    def heal(self) -> None:
        """Undo everything, and wait until all members follow one leader."""
        self._cluster.heal()
