"""The hosts of a live runtime that breaks none of their parts: a runtime overrides what it can break and see."""

from collections.abc import Sequence

from upheaval.errors import UsageError
from upheaval.system.process_table import boot_id
from upheaval_chaos.target import DiskWork, Link, MemoryWork, ProcessorWork, Traffic


class WholeHosts:
    """Implements `upheaval_chaos.target.Hosts`. Each injection raises `UsageError`, and nothing is observed."""

    is_exact = False
    runtime: str

    # --- injector ---

    def cut_power(self, member_id: int) -> None:
        """Raises `UsageError`, as do those that follow."""
        self._refuse(member_id)

    def move_clock(self, member_id: int, milliseconds: int) -> None:  # noqa: ARG002 - refused
        """Refused."""
        self._refuse(member_id)

    def fill_disk(self, member_id: int) -> None:
        """Refused."""
        self._refuse(member_id)

    def free_disk(self, member_id: int) -> None:
        """Refused."""
        self._refuse(member_id)

    def slow_disk(self, member_id: int, latency_ms: int) -> None:  # noqa: ARG002 - refused
        """Refused."""
        self._refuse(member_id)

    def limit_processor(self, member_id: int, percent: int) -> None:  # noqa: ARG002 - refused
        """Refused."""
        self._refuse(member_id)

    def limit_memory(self, member_id: int, megabytes: int) -> None:  # noqa: ARG002 - refused
        """Refused."""
        self._refuse(member_id)

    def expect_no_end(self, member_id: int) -> None:
        """Refused."""
        self._refuse(member_id)

    def end_in_change(self, member_id: int, changes: int, *, loses_power: bool) -> None:  # noqa: ARG002 - refused
        """Refused."""
        self._refuse(member_id)

    def end_in_no_change(self, member_id: int) -> None:
        """Refused."""
        self._refuse(member_id)

    def change_bytes(self, member_id: int, percent: int) -> None:  # noqa: ARG002 - refused
        """Refused."""
        self._refuse(member_id)

    def restore_bytes(self, member_id: int) -> None:
        """Refused."""
        self._refuse(member_id)

    # --- observer ---

    def boot(self, member_id: int) -> str:  # noqa: ARG002 - members share this machine
        """That of this machine."""
        return boot_id()

    def clock_lead_ms(self, member_id: int) -> tuple[int, int] | None:  # noqa: ARG002 - not observed
        """None: not observed here."""
        return None

    def disk_work(self, member_id: int) -> DiskWork:  # noqa: ARG002 - not observed
        """None: not observed here."""
        return DiskWork(0, 0, 0, 0, (), (), 0)

    def processor_work(self, member_id: int) -> Sequence[ProcessorWork]:  # noqa: ARG002 - not observed
        """None: not observed here."""
        return ()

    def memory_work(self, member_id: int) -> MemoryWork:  # noqa: ARG002 - not observed
        """None: not observed here."""
        return MemoryWork(frozenset(), 0, 0)

    def has_room(self, member_id: int) -> bool:  # noqa: ARG002 - not observed
        """True: no disk is filled here."""
        return True

    def has_durable_log(self, member_id: int) -> bool:  # noqa: ARG002 - not observed
        """False: not observed here."""
        return False

    def damage_reports(self, member_id: int) -> int:  # noqa: ARG002 - not observed
        """0: not observed here."""
        return 0

    def takes_part(self, member_id: int) -> bool:  # noqa: ARG002 - not observed
        """False: not observed here."""
        return False

    def watch(self, link: Link) -> Traffic:
        """Raises `UsageError`: proxies or filters watch the links of live members."""
        raise UsageError(f"the hosts of live members do not watch {link}")

    def _refuse(self, member_id: int) -> None:
        raise UsageError(f"the {self.runtime} runtime cannot do this to member {member_id}: use --runtime simulated")
