"""The TLS of one process: its identity, its rules, the reports of its connections, and the reload of its files.

Without files everything here does nothing, and connections are plain.
"""

from collections.abc import Callable, Sequence
from typing import Final

from upheaval_node.counters import TLS_REFUSED, Counter, Counters
from upheaval_node.errors import UsageError
from upheaval_node.peer_faults import PeerFaults
from upheaval_node.ports import ErrorSink, Tracer
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.network import SelectorNetwork
from upheaval_node.runtime.tls import Peer, Refusal, TlsIdentity, TlsRules
from upheaval_node.tls_files import BACKUP, MEMBER, STANDBY, TlsFiles
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import Now

NODES: Final = (MEMBER, BACKUP, STANDBY)
"""All nodes, but no clients."""


class ProcessTls:
    """`own_name` is the name that the process's certificate must have."""

    def __init__(
        self,
        files: TlsFiles | None,
        own_name: str,
        rules: TlsRules,
        *,
        tracer: Tracer,
        errors: ErrorSink,
        now: Callable[[], Now],
    ) -> None:
        """Raises `UsageError` for files that cannot be used, and for a certificate of another name."""
        self._tracer = tracer
        self._errors = errors
        self._now = now
        self._faults = PeerFaults(errors, "tls-peer")
        self._counter: Counter | None = None
        self._reloads = 0
        self._identity = None if files is None else TlsIdentity(files, rules)
        if self._identity is not None and files is not None:
            if self._identity.name != own_name:
                raise UsageError(f"{files.certificate} is the certificate of {self._identity.name}, not of {own_name}")
            self._identity.on_secured = self._on_secured
            self._identity.on_refused = self._on_refused

    def network(self, loop: Loop) -> SelectorNetwork:
        """The network of the streams."""
        return SelectorNetwork(loop, self._identity)

    def count_in(self, counters: Counters) -> None:
        """Publish the number of refused connections."""
        if self._identity is not None:
            self._counter = counters.allocate(TLS_REFUSED, b"", "Upheaval TLS connections refused")
            self._trace_identity(TraceKind.CERTIFICATES_READ)

    def reload(self, others: Sequence[Callable[[], None]] = ()) -> None:
        """Read certificates, and whatever `others` read, again.

        What cannot be used is one line, and the one from before stays in use.
        """
        self._reloads += 1
        if self._identity is not None and self._try("certificates", self._identity.reload):
            self._trace_identity(TraceKind.CERTIFICATES_READ)
        for number, other in enumerate(others):
            if self._try(f"credentials {number}", other):
                self._tracer.emit(self._now(), TraceKind.CREDENTIALS_READ, number=number)

    def _try(self, what: str, read: Callable[[], None]) -> bool:
        try:
            read()
        except UsageError as error:
            # Each attempt is an operator's, so each must be reported.
            kind = f"{what} not read, attempt {self._reloads}"
            self._errors.report(self._now(), kind, f"{error}; the ones from before stay in use")
            return False
        return True

    def _trace_identity(self, event: TraceKind) -> None:
        assert self._identity is not None
        self._tracer.emit(self._now(), event, name=self._identity.name, not_after=self._identity.not_after)

    def _on_secured(self, peer: Peer) -> None:
        self._tracer.emit(
            self._now(),
            TraceKind.TLS_PEER,
            name=peer.name,
            peer=peer.address,
            dialled=peer.is_dialled,
            authority=peer.authority,
        )

    def _on_refused(self, refusal: Refusal, peer: str) -> None:
        if self._counter is not None:
            self._counter.increment()
        self._faults.note(self._now(), peer, f"{refusal.kind}: {refusal.text}")
