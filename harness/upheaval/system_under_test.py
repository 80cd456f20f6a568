"""What a member *is*, once for each system under test: the image, how it is configured, how it says what it does.

Runtimes that put members into containers know members only through this. Ours is the first system; another one (real
Aeron, in Java) is another object of the same shape.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final, Protocol

from upheaval import jsonfields
from upheaval.cluster import MemberStatus
from upheaval.jsonfields import FieldError
from upheaval_node import __version__
from upheaval_node.runtime.exit_status import ExitStatus

SOURCE_FOLDER: Final = "source"
"""Where in a member's folder the code of a user's own service is put."""


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """One member, or one component of it, as a runtime wants it.

    `hosts` are the names of all members, in order of their ids. `component` is `all` for a whole member.
    `max_sessions` 0 leaves the system's own limit. `names` says where the member dials for an endpoint of another one.
    `planted` is the bug of a test build, None for the system as it is.
    """

    member_id: int
    hosts: Sequence[str]
    run_id: str
    service: str
    profile: str
    sync_level: int
    component: str = "all"
    max_sessions: int = 0
    names: Mapping[str, str] = field(default_factory=dict)
    planted: str | None = None


class SystemUnderTest(Protocol):
    """What a runtime has to know of a system whose members run in containers."""

    @property
    def image(self) -> str:
        """The tag of the image."""
        ...

    @property
    def test_image(self) -> str:
        """The tag of the image with a test build, which a bug can be planted in."""
        ...

    @property
    def folder(self) -> PurePosixPath:
        """Where a member keeps everything that the run folder shall have: mounted as a volume, collected at the end."""
        ...

    @property
    def ingress_port(self) -> int:
        """Where clients connect."""
        ...

    @property
    def status_command(self) -> Sequence[str]:
        """A command inside the container that prints what `parse_status` reads."""
        ...

    @property
    def expected_exit_statuses(self) -> Sequence[int]:
        """Of a component that ended because another one of its member had."""
        ...

    def environment(self, plan: MemberPlan) -> Mapping[str, str]:
        """The configuration of a member."""
        ...

    def arguments(self, plan: MemberPlan) -> Sequence[str]:
        """What the image's entry point is told."""
        ...

    def parse_status(self, member_id: int, output: str) -> MemberStatus:
        """The status of a member; `leader_member_id` is left to the runtime. What cannot be read is a dead member."""
        ...


class UpheavalNode:
    """The node of this repository. Implements `SystemUnderTest`."""

    image = f"upheaval/node:{__version__}"
    test_image = f"upheaval/node-test:{__version__}"
    folder = PurePosixPath("/var/lib/upheaval")
    # ingress, consensus, log, catch-up, archive: the order of the members string.
    ports = (9001, 9002, 9003, 9004, 9005)
    ingress_port = ports[0]
    metrics_port = 9006
    expected_exit_statuses = (int(ExitStatus.COMPONENT_LOST),)
    status_command = ("python3", "-m", "upheaval_node.runtime.health", "--json")

    def members_text(self, hosts: Sequence[str]) -> str:
        """The members string of Aeron Cluster: `id,ingress,consensus,log,catchup,archive|...`."""
        return "|".join(
            ",".join([str(member_id), *(f"{host}:{port}" for port in self.ports)])
            for member_id, host in enumerate(hosts)
        )

    def environment(self, plan: MemberPlan) -> Mapping[str, str]:
        config = {
            "member_id": plan.member_id,
            "members": self.members_text(plan.hosts),
            "service": plan.service,
            "profile": plan.profile,
            "sync_level": plan.sync_level,
            "run_id": plan.run_id,
            "python_path": [SOURCE_FOLDER],
            "names": dict(plan.names),
            "metrics_port": self.metrics_port,
            "metrics_host": "0.0.0.0",
            "settings": {"cluster": {"max_sessions": plan.max_sessions}} if plan.max_sessions else {},
        }
        environment = {"UPHEAVAL_CONFIG": json.dumps(config), "UPHEAVAL_RUN_ID": plan.run_id}
        return environment if plan.planted is None else {**environment, "UPHEAVAL_PLANTED": plan.planted}

    def arguments(self, plan: MemberPlan) -> Sequence[str]:
        return ("--component", plan.component)

    def parse_status(self, member_id: int, output: str) -> MemberStatus:
        try:
            fields = jsonfields.parse_object(output)
            if not fields.get("alive"):
                return MemberStatus(member_id, alive=False)
            if "role" not in fields:
                return MemberStatus(member_id, alive=True)
            return MemberStatus(
                member_id,
                alive=True,
                role=jsonfields.optional_text(fields, "role"),
                leadership_term_id=jsonfields.integer(fields, "leadership_term_id"),
                election_state=jsonfields.optional_text(fields, "election_state"),
                append_position=jsonfields.integer(fields, "append_position"),
                commit_position=jsonfields.integer(fields, "commit_position"),
                pids={"all": jsonfields.integer(fields, "pid")},
            )
        except FieldError:
            return MemberStatus(member_id, alive=False)
