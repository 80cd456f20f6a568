"""Planted bugs of access: who opens a session, and who may ask for what."""

from typing import Any, Final

from upheaval_chaos.planted.bug import Area
from upheaval_node.cluster.authentication import SessionProxy
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.credentials_authenticator import CredentialsAuthenticator
from upheaval_node.types import Now

AREA: Final[Area] = Area("access")


@AREA.bug("only-credentials")
def any_proof_accepted(module: ConsensusModule) -> None:
    """The answer to a challenge need not prove that a client has the secret."""
    for owner in (module._state.sessions, module._backups):
        owner._authenticator = _AnyProof(owner._authenticator)


@AREA.bug("only-credentials")
def no_challenge(module: ConsensusModule) -> None:
    """A client needs no secret for the name that it gives."""
    for owner in (module._state.sessions, module._backups):
        owner._authenticator = _NoChallenge(owner._authenticator)


class _Changed:
    """An authenticator, changed where it has credentials."""

    def __init__(self, authenticator: Any) -> None:
        self._authenticator = authenticator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._authenticator, name)


class _AnyProof(_Changed):
    def on_challenged_session(self, now: Now, proxy: SessionProxy) -> None:
        authenticator = self._authenticator
        claim = (
            authenticator._claims.get(proxy.session_id) if isinstance(authenticator, CredentialsAuthenticator) else None
        )
        if claim is None or claim.answer is None:
            authenticator.on_challenged_session(now, proxy)
        else:
            del authenticator._claims[proxy.session_id]
            proxy.authenticate(claim.principal)


class _NoChallenge(_Changed):
    def on_connected_session(self, now: Now, proxy: SessionProxy) -> None:
        authenticator = self._authenticator
        claim = (
            authenticator._claims.pop(proxy.session_id, None)
            if isinstance(authenticator, CredentialsAuthenticator)
            else None
        )
        if claim is None:
            authenticator.on_connected_session(now, proxy)
        else:
            proxy.authenticate(claim.principal)
