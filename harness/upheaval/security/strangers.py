"""Attempts to connect with credentials that are wrong, so that a run shows what its cluster does with them."""

import time
from collections.abc import Mapping

from upheaval.records import ConnectAnswer, ConnectAttempt, WrongCredentials
from upheaval_node.client.connect import AuthenticationError
from upheaval_node.client.driver import BlockingClient
from upheaval_node.client.driving import ClientOptions
from upheaval_node.credentials import CredentialsSupplier, NoCredentials, SecretCredentials
from upheaval_node.errors import NodeError

_GUESS = "guessed"


def wrong_credentials(known: str) -> dict[WrongCredentials, CredentialsSupplier]:
    """One of each kind; `known` is a name of the credentials file, which holds another secret for it."""
    return {
        WrongCredentials.SECRET: SecretCredentials(known, _GUESS),
        WrongCredentials.NAME: SecretCredentials(f"not {known}", _GUESS),
        WrongCredentials.NOTHING: NoCredentials(),
    }


def attempt(
    endpoints: Mapping[int, str], options: ClientOptions, shown: WrongCredentials, known: str, timeout_s: float
) -> ConnectAttempt:
    """Try once over real sockets."""
    wrong = options.copy()
    wrong["credentials"] = wrong_credentials(known)[shown]
    try:
        with BlockingClient(endpoints, timeout_s, **wrong):
            answer = ConnectAnswer.ADMITTED
    except AuthenticationError:
        answer = ConnectAnswer.REFUSED
    except NodeError:
        answer = ConnectAnswer.NONE
    return ConnectAttempt(shown, answer, time.monotonic_ns())
