"""Whether an image is fit for use: what its description says, and what a trial run without a network finds.

Knows images and the engine; it starts no clusters.
"""

import json
import uuid
from typing import Any, Final

from upheaval.images.catalogue import VOLUME, Image
from upheaval.images.sources import source_digest
from upheaval.runtimes.docker.engine import Client, engine_errors, inspect
from upheaval.runtimes.docker.labels import labels_of_run
from upheaval_chaos.programs import printed

_PYTHON: Final = [3, 11]
_LABELS: Final = ("org.opencontainers.image.title", "org.opencontainers.image.version", "upheaval.image")
_SCRIPT: Final = """
import importlib, json, os, sys
missing = []
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as error:
        missing.append(f"{name} ({error})")
print(json.dumps({"python": sys.version_info[:2], "uid": os.getuid(), "missing": missing}))
"""


def problems_of(client: Client, image: Image, tag: str | None = None) -> list[str]:
    """What is wrong with an image, a line each; none when it is fit for use. `tag` replaces its tag."""
    tag = tag or image.tag
    attributes = inspect(client, tag)
    if attributes is None:
        return [f"{tag} is missing: build it with `upheaval images build {image.name}`"]
    problems = [*_problems_described(image, attributes), *_problems_inside(client, image, tag, attributes)]
    return [f"{tag}: {problem}" for problem in problems]


def _problems_described(image: Image, attributes: dict[str, Any]) -> list[str]:
    config, size_mb = attributes["Config"], attributes["Size"] / 1e6
    labels = config.get("Labels") or {}
    is_root = config.get("User") in ("", "0", "root", "0:0", None)
    problems = []
    if size_mb >= image.limit_mb:
        problems.append(f"{size_mb:.0f} MB, the limit is {image.limit_mb} MB")
    if is_root != image.must_be_root:
        problems.append("its processes would run as root" if is_root else "its processes would not run as root")
    health_check = (config.get("Healthcheck") or {}).get("Test") or ["NONE"]
    if image.has_health_check and health_check == ["NONE"]:
        problems.append("it has no health check")
    if image.has_volume and VOLUME not in (config.get("Volumes") or ()):
        problems.append(f"it names no volume {VOLUME}")
    missing = [label for label in _LABELS if not labels.get(label)]
    if missing:
        problems.append(f"it lacks the label {missing[0]}")
    if labels.get("upheaval.source") != source_digest(image):
        problems.append("it was built from other sources than these: build it again")
    return problems


def _problems_inside(client: Client, image: Image, tag: str, attributes: dict[str, Any]) -> list[str]:
    """Run it: which Python, whose rights, and whether its programs start."""
    problems = []
    volumes = list(attributes["Config"].get("Volumes") or ())
    if image.imports:
        status, output = _try(client, tag, ("python3", "-c", _SCRIPT, *image.imports), volumes)
        problems += _problems_of_python(image, status, output)
    for command in image.commands:
        status, output = _try(client, tag, command, volumes)
        if status:
            problems.append(f"`{' '.join(command)}` fails in it: {_last_line(output)}")
    if VOLUME in volumes and _try(client, tag, ("test", "-w", VOLUME), [])[0]:
        problems.append(f"its processes may not write to its volume {VOLUME}")
    return problems


def _problems_of_python(image: Image, status: int, output: str) -> list[str]:
    if status:
        return [f"its Python does not run: {_last_line(output)}"]
    seen = json.loads(_last_line(output))
    problems = [f"it lacks the module {missing}" for missing in seen["missing"]]
    if seen["python"] != _PYTHON and (image.requirements is not None or seen["python"] < _PYTHON):
        problems.append(f"it has Python {'.'.join(map(str, seen['python']))}, not 3.11")
    if (seen["uid"] == 0) != image.must_be_root:
        problems.append(f"its processes run as user {seen['uid']}")
    return problems


def _try(client: Client, tag: str, command: tuple[str, ...], volumes: list[str]) -> tuple[int, str]:
    """Exit status and output of a command in it, with a read-only root, tmpfs on /tmp and `volumes`, and no network."""
    import docker

    with engine_errors(f"running {tag}"):
        container = client.containers.create(
            tag,
            list(command[1:]),
            entrypoint=command[0],
            labels=trial_labels(tag),
            network_mode="none",
            read_only=True,
            cap_drop=["ALL"],
            tmpfs=dict.fromkeys([*volumes, "/tmp"], ""),
        )
        try:
            try:
                container.start()
            except docker.errors.APIError as error:
                return 127, str(error.explanation)
            status = int(container.wait()["StatusCode"])
            return status, printed(container.logs())
        finally:
            container.remove(force=True, v=True)


def trial_labels(tag: str) -> dict[str, str]:
    """A trial is a separate run: the next start removes what a killed harness leaves of it."""
    return {**labels_of_run(uuid.uuid4().hex, detached=False), "upheaval.trial": tag}


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"
