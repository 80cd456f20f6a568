"""Toxiproxy's HTTP API as far as link faults need it, with time-outs and with an error for every refusal.

There are two implementations of one interface. `PythonToxiproxy` uses the package toxiproxy-python and serves the
docker runtime. `StandardToxiproxy` needs only the standard library, because the process runtime has to work without any
package; `connect_toxiproxy` prefers the first if the package is installed. Both work with a real Toxiproxy (started
with `-proxy-metrics`) and with the proxies of this process.
"""

import importlib.util
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

from upheaval_chaos.errors import EnvironmentFault
from upheaval_chaos.programs import printed

_TIMEOUT_S: Final = 10.0
_NO_PROXIES: Final = {"http": None, "all": None}
"""For `requests`: the API is on this machine or the engine's, so `HTTP_PROXY` must not apply."""
_SENT: Final = re.compile(r"^toxiproxy_proxy_sent_bytes_total\{([^}]*)\} ([0-9.e+]+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


class ToxiproxyApi(ABC):
    """One Toxiproxy, by its API's address."""

    def __init__(self, address: str) -> None:
        self.address = address

    def create(self, name: str, upstream: str, listen: str = "127.0.0.1:0", protocol: str = "tcp") -> str:
        """Create a proxy. Returns its listen address. Only the proxies of this process support another
        protocol: `udp`.
        """
        fields = {"name": name, "upstream": upstream, "listen": listen, "enabled": True}
        if protocol != "tcp":
            fields["protocol"] = protocol
        return str(json.loads(self._call("POST", "/proxies", fields))["listen"])

    def populate(self, proxies: Mapping[str, tuple[str, str]]) -> None:
        """Create many proxies at once: listen address and upstream by name."""
        fields = [
            {"name": name, "listen": listen, "upstream": upstream, "enabled": True}
            for name, (listen, upstream) in proxies.items()
        ]
        self._call("POST", "/populate", fields)

    def add_toxic(
        self, proxy: str, kind: str, stream: str, attributes: Mapping[str, int], toxicity: float = 1.0
    ) -> None:
        """Add a toxic, named after its type and stream."""
        fields = {"name": f"{kind}_{stream}", "type": kind, "stream": stream, "attributes": dict(attributes)}
        self._call("POST", f"/proxies/{proxy}/toxics", {**fields, "toxicity": toxicity})

    def remove_toxic(self, proxy: str, kind: str, stream: str) -> None:
        """Remove a toxic of `add_toxic`."""
        self._call("DELETE", f"/proxies/{proxy}/toxics/{kind}_{stream}")

    def take_seen(self) -> Mapping[str, Any]:
        """See `SeenDatagrams.take`; only the proxies of this project support it."""
        taken: Mapping[str, Any] = json.loads(self._call("POST", "/seen"))
        return taken

    def version(self) -> str:
        """The version of a running server. Its form differs between versions."""
        return self._call("GET", "/version")

    def sent_bytes(self) -> dict[tuple[str, str], int]:
        """The bytes written to the receivers, by proxy and stream. A real Toxiproxy counts a connection when
        it ends.
        """
        sent: dict[tuple[str, str], int] = {}
        for labels_text, count in _SENT.findall(self._call("GET", "/metrics")):
            labels = dict(_LABEL.findall(labels_text))
            sent[labels["proxy"], labels["direction"]] = int(float(count))
        return sent

    @abstractmethod
    def _call(self, method: str, path: str, fields: object = None) -> str:
        """The body of the answer. Raises `EnvironmentFault` without an answer, or for a refusal."""

    def _require_done(self, method: str, path: str, status: int, text: str) -> str:
        if status >= 300:
            raise EnvironmentFault(f"Toxiproxy refused {method} {path}: {text.strip()}")
        return text

    def _silent(self, error: Exception) -> EnvironmentFault:
        return EnvironmentFault(f"Toxiproxy at {self.address} does not answer: {error}")


class StandardToxiproxy(ToxiproxyApi):
    """With the standard library."""

    def _call(self, method: str, path: str, fields: object = None) -> str:
        # Imported late: it brings the e-mail package, which most commands do not need.
        import http.client

        connection = http.client.HTTPConnection(self.address, timeout=_TIMEOUT_S)
        body = None if fields is None else json.dumps(fields)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = printed(response.read())
        except (OSError, http.client.HTTPException) as error:
            raise self._silent(error) from error
        finally:
            connection.close()
        return self._require_done(method, path, response.status, text)


class PythonToxiproxy(ToxiproxyApi):
    """Uses toxiproxy-python, whose objects share one server, have no time-outs and take a server's errors for answers.

    Each instance therefore has its own API consumer, a subclass of the package's with another host and port. Every call
    has a time-out and checks the status.
    """

    def __init__(self, address: str) -> None:
        from toxiproxy.api import APIConsumer

        super().__init__(address)
        host, _, port = address.rpartition(":")
        self._consumer: Any = type("Consumer", (APIConsumer,), {"host": host, "port": int(port)})

    def _call(self, method: str, path: str, fields: object = None) -> str:
        import requests
        from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

        arguments = {} if fields is None else {"json": fields}
        options = {"timeout": _TIMEOUT_S, "proxies": _NO_PROXIES}
        try:
            response = getattr(self._consumer, method.lower())(path, **options, **arguments)
        except (InvalidToxic, NotFound, ProxyExists) as error:
            text = printed(error.args[0]) if error.args else ""
            raise EnvironmentFault(f"Toxiproxy refused {method} {path}: {text.strip()}") from error
        except requests.exceptions.RequestException as error:
            raise self._silent(error) from error
        return self._require_done(method, path, response.status_code, response.text)


def connect_toxiproxy(address: str) -> ToxiproxyApi:
    """A client by toxiproxy-python if that is installed, else by the standard library."""
    if importlib.util.find_spec("toxiproxy") is None:
        return StandardToxiproxy(address)
    return PythonToxiproxy(address)
