"""A cluster of one member of Aeron's own, as two processes: node and service. Needs what `aeron_tools` needs."""

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from support.aeron_tools import Answer, cluster_tool, java, java_command
from upheaval.runtimes.ports import choose_base_port
from upheaval.waits import wait_until

_TIMEOUT_S = 40.0
_ASK_INTERVAL_S = 0.5
"""Each question is a virtual machine, which takes the processors that the node needs to start."""
_SERVICE = "io.aeron.samples.cluster.tutorial.BasicAuctionClusteredService"


class AeronNode:
    """Its files lie in `folder` as our members have them: `archive`, `cluster`, and `aeron` while it runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        base = choose_base_port(1)
        self._endpoints = ",".join(f"localhost:{base + number}" for number in range(5))
        self._processes: list[subprocess.Popen[bytes]] = []

    def properties(self) -> dict[str, object]:
        """Also what its tools need to reach driver and archive."""
        return {
            "aeron.dir": self.folder / "aeron",
            "aeron.dir.delete.on.shutdown": "true",
            "aeron.threading.mode": "SHARED",
            "aeron.archive.threading.mode": "SHARED",
            "aeron.archive.dir": self.folder / "archive",
            "aeron.archive.control.channel.enabled": "false",
            "aeron.archive.control.channel": "aeron:ipc",
            "aeron.archive.control.response.channel": "aeron:ipc",
            "aeron.archive.replication.channel": "aeron:udp?endpoint=localhost:0",
            "aeron.cluster.dir": self.folder / "cluster",
            "aeron.cluster.replication.channel": "aeron:udp?endpoint=localhost:0",
            "aeron.cluster.ingress.channel": "aeron:udp?term-length=64k",
            "aeron.cluster.members": f"0,{self._endpoints}",
            "aeron.cluster.service.class.name": _SERVICE,
        }

    def tool(self, *command: str) -> Answer:
        """Aeron's ClusterTool on this node."""
        program, folder = "io.aeron.cluster.ClusterTool", str(self.folder / "cluster")
        return java(program, folder, *command, properties=self.properties())

    def __enter__(self) -> Self:
        programs = ("io.aeron.cluster.ClusteredMediaDriver", "io.aeron.cluster.service.ClusteredServiceContainer")
        try:
            for program in programs:
                command = java_command(program, properties=self.properties())
                with (self.folder / "said.log").open("ab") as said:
                    self._processes.append(
                        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=self.folder)
                    )
            wait_until(
                lambda: (
                    (self.folder / "cluster" / "cluster-mark.dat").exists()
                    and cluster_tool(self.folder, "is-leader").status == 0
                ),
                timeout_s=240,
                describe=lambda: f"no leader: {(self.folder / 'said.log').read_text()[-500:]}",
                interval_s=_ASK_INTERVAL_S,
            )
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it in an orderly way, the service first."""
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
