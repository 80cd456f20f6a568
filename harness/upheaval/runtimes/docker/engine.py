"""The Docker engine: connects to it, or says in one line why it cannot be used.

Only this module turns errors of the docker SDK into errors of the harness. It knows nothing of clusters.
"""

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from upheaval.aeron_programs import version_of_tag
from upheaval.errors import EnvironmentFault
from upheaval.extras import install_line
from upheaval.user_folders import home_folder

OLDEST_API: Final = (1, 41)
"""The API version of engine 20.10."""

DEFAULT_HOST: Final = "unix:///var/run/docker.sock"

LOOPBACK: Final = "127.0.0.1"

Client = Any
"""A `docker.DockerClient`; the SDK has no types."""


def connect() -> Client:
    """A client of an engine that answers and is new enough. The caller closes it. Raises `EnvironmentFault` with one
    line.
    """
    problem = context_problem()
    if problem is not None:
        raise EnvironmentFault(problem)
    try:
        import docker
        import requests
        import testcontainers.core.container  # noqa: F401 - so that its absence is known here
    except ImportError:
        hint = f"install them with `{install_line('docker')}`"
        raise EnvironmentFault(f"the Python packages docker and testcontainers are missing: {hint}") from None
    if os.environ.get("DOCKER_HOST", "").startswith("ssh://"):
        raise EnvironmentFault("engines at ssh:// are not supported: set DOCKER_HOST to a unix:// or tcp:// address")
    try:
        _keep_off_proxies()
        client = docker.from_env()
        with closed_on_failure(client):
            client.ping()
            version = str(client.version()["ApiVersion"])
    except ValueError as error:
        raise EnvironmentFault(f"DOCKER_HOST is not the address of an engine: {error}") from error
    except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
        raise EnvironmentFault(_why_unreachable(error)) from error
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_API:
        client.close()
        wanted = ".".join(map(str, OLDEST_API))
        raise EnvironmentFault(f"the Docker engine is too old: it has API {version}, {wanted} (engine 20.10) is needed")
    return client


def _keep_off_proxies() -> None:
    """Bypass the user's proxy for an engine at tcp://, since that proxy is for the internet.

    Sets the variables of this process, because testcontainers creates its own clients.
    """
    host = urlsplit(os.environ.get("DOCKER_HOST", "")).hostname
    if host is None:
        return
    exempt = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if host not in exempt.split(","):
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(filter(None, (exempt, host)))


def context_problem() -> str | None:
    """Why DOCKER_CONTEXT is unusable: it names another engine than DOCKER_HOST or the default. None when it is usable.

    The `docker` command follows that variable and the Python packages do not, so half of a run would be on each engine.
    """
    name = os.environ.get("DOCKER_CONTEXT", "")
    if name in ("", "default"):
        return None
    configuration = Path(os.environ.get("DOCKER_CONFIG") or home_folder() / ".docker")
    meta = configuration / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest() / "meta.json"
    try:
        host = json.loads(meta.read_text(encoding="utf-8"))["Endpoints"]["docker"]["Host"]
    except FileNotFoundError:
        return f"DOCKER_CONTEXT={name}: no such context: unset the variable, or see `docker context ls`"
    except (OSError, ValueError, LookupError, TypeError) as error:
        return f"DOCKER_CONTEXT={name}: {meta} cannot be read: {error}"
    if host != os.environ.get("DOCKER_HOST", DEFAULT_HOST):
        return f"DOCKER_CONTEXT={name} is not followed: unset it, and set DOCKER_HOST={host} instead"
    return None


@contextlib.contextmanager
def connected() -> Iterator[Client]:
    """A context manager around `connect` that closes the client."""
    client = connect()
    try:
        yield client
    finally:
        client.close()


@contextlib.contextmanager
def closed_on_failure(client: Client) -> Iterator[None]:
    """Close the client if the code inside fails: the owner that it should create would have closed it."""
    try:
        yield
    except BaseException:
        client.close()
        raise


@contextlib.contextmanager
def answers_closed(client: Client) -> Iterator[None]:
    """Close every answer that this thread receives from the engine inside, even one that was read in part.

    The SDK hands out streams without their connection, so no other code can close an abandoned stream.
    """
    answers: list[Any] = []
    thread = threading.get_ident()

    def keep(answer: Any, *_: object, **__: object) -> None:
        if threading.get_ident() == thread:
            answers.append(answer)

    hooks: list[Any] = client.api.hooks["response"]
    hooks.append(keep)
    try:
        yield
    finally:
        hooks.remove(keep)
        for answer in answers:
            answer.close()


def engine_host(client: Client) -> str:
    """The host that publishes the engine's ports for this machine: loopback, or the host of a remote engine."""
    url = urlsplit(client.api.base_url)
    is_local = url.scheme in ("http+unix", "http+docker", "npipe") or url.hostname in (None, "localhost")
    return LOOPBACK if is_local else str(url.hostname)


@contextlib.contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn every error of the engine into an `EnvironmentFault` with one line that names the action."""
    import docker
    import requests

    try:
        yield
    except docker.errors.ImageNotFound as error:
        raise EnvironmentFault(f"{doing}: image missing ({_explain(error)}): run `upheaval images build`") from error
    except docker.errors.DockerException as error:
        raise EnvironmentFault(f"{doing}: {_explain(error)}") from error
    except requests.exceptions.RequestException as error:
        raise EnvironmentFault(f"{doing}: the Docker engine does not answer ({type(error).__name__})") from error


def require_image(client: Client, tag: str) -> str:
    """The id of a local image; images are never pulled. Raises `EnvironmentFault` when the image is missing."""
    import docker

    try:
        return str(client.images.get(tag).id)
    except docker.errors.ImageNotFound:
        raise EnvironmentFault(f"the image {tag} is missing: build it with `{_build_command(tag)}`") from None
    except docker.errors.DockerException as error:
        raise EnvironmentFault(f"cannot look for the image {tag}: {_explain(error)}") from error


def inspect(client: Client, tag: str) -> dict[str, Any] | None:
    """The engine's description of an image; None when no image has that name."""
    import docker

    with engine_errors(f"inspecting {tag}"):
        try:
            attributes: dict[str, Any] = client.api.inspect_image(tag)
        except docker.errors.ImageNotFound:
            return None
    return attributes


def _build_command(tag: str) -> str:
    """The command that builds an image: one of ours (for Aeron, with the version in the tag) or a user's own."""
    if not tag.startswith("upheaval/"):
        return f"docker build -t {tag}"
    name, _, _ = tag.removeprefix("upheaval/").partition(":")
    version = version_of_tag(tag)
    return f"upheaval images build {name}" + (f" --aeron-version {version}" if name == "aeron" else "")


def _explain(error: Exception) -> str:
    explanation = getattr(error, "explanation", None) or str(error)
    return " ".join(str(explanation).split())


def _why_unreachable(error: Exception) -> str:
    text = str(error)
    if "Permission denied" in text or "PermissionError" in text:
        return "no permission to use the Docker engine's socket: join its group (docker) or run as root"
    if "FileNotFoundError" in text or "No such file" in text:
        return "no Docker engine: its socket does not exist; start the engine or set DOCKER_HOST"
    if "Connection refused" in text or "ConnectionRefusedError" in text:
        return "no Docker engine answers: start it or set DOCKER_HOST"
    return f"the Docker engine cannot be used: {_explain(error)}"
