"""The container images of the platform: which there are, how they are built, with a registry or without, and checked.

The context of a build is made here, file by file, so that nothing of a working copy gets into an image that does not
belong there. This module knows images; it starts no clusters.
"""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from upheaval.errors import EnvironmentFault, UsageError
from upheaval.runtimes.docker.engine import Client, engine_errors
from upheaval_node import __version__

ROOT: Final = Path(__file__).resolve().parents[2]
OFFLINE_BASE: Final = "upheaval/base:bookworm"
_SUITE: Final = "bookworm"
# Left empty in the offline base.
_SUPERFLUOUS: Final = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "var/lib/apt/lists",
    "var/cache/apt",
    "var/cache/debconf",
    "var/log",
)
_CA_BUNDLES: Final = ("etc/ssl/certs/ca-certificates.crt", "usr/local/share/ca-certificates")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Image:
    """One image: where its Dockerfile is, what belongs to its context, and how large it may become."""

    name: str
    dockerfile: str
    context: tuple[str, ...]
    default_base: str
    limit_mb: int

    @property
    def tag(self) -> str:
        return f"upheaval/{self.name}:{__version__}"


NODE: Final = Image("node", "images/node/Dockerfile", ("images/node", "node/upheaval_node"), "python:3.11-slim", 200)
IMAGES: Final = (NODE,)


@dataclass(frozen=True, slots=True)
class ImageState:
    """What the engine has of an image. `is_current`: it was built from the sources that are here."""

    image: Image
    image_id: str | None
    size_mb: float = 0.0
    is_current: bool = False


def image_named(name: str) -> Image:
    """Raises `UsageError` for a name that no image has."""
    for image in IMAGES:
        if image.name == name:
            return image
    raise UsageError(f"there is no image {name!r}: use {', '.join(image.name for image in IMAGES)}")


# --- what is there ---


def image_state(client: Client, image: Image) -> ImageState:
    """What the engine has under the image's tag."""
    attributes = _inspect(client, image.tag)
    if attributes is None:
        return ImageState(image, None)
    labels = attributes["Config"].get("Labels") or {}
    is_current = labels.get("upheaval.source") == source_digest(image)
    return ImageState(image, str(attributes["Id"]), attributes["Size"] / 1e6, is_current)


def problems_of(client: Client, image: Image) -> list[str]:
    """What is wrong with an image, a line each; none when it is fit for use."""
    attributes = _inspect(client, image.tag)
    if attributes is None:
        return [f"{image.tag} is missing: build it with `upheaval images build`"]
    config, size_mb = attributes["Config"], attributes["Size"] / 1e6
    found = []
    if size_mb >= image.limit_mb:
        found.append(f"{size_mb:.0f} MB, the limit is {image.limit_mb} MB")
    if config.get("User") in ("", "0", "root", None):
        found.append("its processes would run as root")
    if not config.get("Healthcheck"):
        found.append("it has no health check")
    if not config.get("Volumes"):
        found.append("it names no volume")
    if (config.get("Labels") or {}).get("upheaval.source") != source_digest(image):
        found.append("it was built from other sources than these: build it again")
    return [f"{image.tag}: {problem}" for problem in found + _problems_inside(client, image)]


def _problems_inside(client: Client, image: Image) -> list[str]:
    """Run the image once, without a network and with a read-only root: which Python, whose rights."""
    script = "import json, os, sys, upheaval_node; print(json.dumps([*sys.version_info[:2], os.getuid()]))"
    with engine_errors(f"running {image.tag}"):
        volumes = _inspect_volumes(client, image)
        output = client.containers.run(
            image.tag,
            ["-c", script],
            entrypoint="python3",
            remove=True,
            network_mode="none",
            read_only=True,
            tmpfs=dict.fromkeys(volumes, ""),
        )
    major, minor, uid = json.loads(output)
    found = [] if (major, minor) == (3, 11) else [f"it has Python {major}.{minor}, not 3.11"]
    return found + (["its processes run as root"] if uid == 0 else [])


def _inspect_volumes(client: Client, image: Image) -> list[str]:
    """What the image declares as volumes: mounted as tmpfs in a trial, so that it leaves no volume behind."""
    attributes = _inspect(client, image.tag) or {}
    return list(attributes["Config"].get("Volumes") or ())


def _inspect(client: Client, tag: str) -> dict[str, Any] | None:
    import docker

    with engine_errors(f"inspecting {tag}"):
        try:
            attributes: dict[str, Any] = client.api.inspect_image(tag)
        except docker.errors.ImageNotFound:
            return None
    return attributes


# --- building ---


def build(client: Client, image: Image, *, base: str | None, offline: bool, say: Say) -> ImageState:
    """Build one image. `offline` takes a base that is made here from Debian's packages instead of a registry's."""
    if offline and base is None:
        base = OFFLINE_BASE
        if _inspect(client, base) is None:
            build_offline_base(client, say)
    base = base or image.default_base
    say(f"building {image.tag} on {base}")
    arguments = {"BASE_IMAGE": base, "VERSION": __version__, "SOURCE": source_digest(image)}
    with engine_errors(f"building {image.tag}"):
        lines = client.api.build(
            fileobj=io.BytesIO(_context(image)),
            custom_context=True,
            dockerfile=image.dockerfile,
            tag=image.tag,
            buildargs=arguments,
            rm=True,
            forcerm=True,
            decode=True,
        )
        for line in lines:
            if "error" in line:
                reason = " ".join(str(line["error"]).split())
                raise EnvironmentFault(f"building {image.tag} failed: {reason} (without a registry: --offline)")
    return image_state(client, image)


def source_digest(image: Image) -> str:
    """One value for everything that goes into an image apart from its base."""
    digest = hashlib.sha256()
    for path in _context_files(image):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _context_files(image: Image) -> list[Path]:
    if not (ROOT / image.dockerfile).is_file():
        raise UsageError(f"{ROOT} has no {image.dockerfile}: images are built from a clone of the repository")
    return sorted(
        path
        for folder in image.context
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )


def _context(image: Image) -> bytes:
    """The build context as a tar file; equal sources give equal bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in _context_files(image):
            content = path.read_bytes()
            entry = tarfile.TarInfo(str(path.relative_to(ROOT)))
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def build_offline_base(client: Client, say: Say) -> None:
    """Debian with Python 3.11 from the machine's own package source, as an image. Needs debootstrap and root."""
    if shutil.which("debootstrap") is None:
        raise EnvironmentFault("--offline needs debootstrap: install Debian's package of that name")
    if os.geteuid() != 0:
        raise EnvironmentFault("--offline needs root, because debootstrap does: run this one command as root")
    say(f"making the base {OFFLINE_BASE} with debootstrap (once, half a minute)")
    with tempfile.TemporaryDirectory(prefix="upheaval-base-") as folder:
        root = Path(folder) / "root"
        _run(["debootstrap", "--variant=minbase", "--include=python3", _SUITE, str(root)])
        for name in _SUPERFLUOUS:
            shutil.rmtree(root / name, ignore_errors=True)
            (root / name).mkdir(parents=True, exist_ok=True)
        for name in _CA_BUNDLES:
            target = root / name
            shutil.rmtree(target, ignore_errors=True) if target.is_dir() else target.unlink(missing_ok=True)
        for name in ("dev", "proc", "sys"):
            shutil.rmtree(root / name, ignore_errors=True)
            (root / name).mkdir()
        packed = Path(folder) / "root.tar"
        _run(["tar", "--numeric-owner", "-C", str(root), "-cf", str(packed), "."])
        repository, _, version = OFFLINE_BASE.partition(":")
        with engine_errors(f"importing {OFFLINE_BASE}"):
            client.api.import_image(src=str(packed), repository=repository, tag=version)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        last = next((line for line in reversed(done.stdout.splitlines()) if line.strip()), "no output")
        raise EnvironmentFault(f"{command[0]} failed: {last.strip()}")
