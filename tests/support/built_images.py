"""Images for tests: built from what is here when they are not, tried out, and spoilt on purpose."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from upheaval import images
from upheaval.images import Image
from upheaval.runtimes.docker.engine import Client


def require(engine: Client, image: Image) -> str:
    """The tag of an image that was built from these sources, without a registry."""
    if not images.image_state(engine, image).is_current:
        images.build(engine, image, base=None, offline=True, say=print)
    return image.tag


def output_of(engine: Client, tag: str, script: str, user: str | None = None) -> list[str]:
    """The words that a shell script prints in an image; read-only, without a network."""
    volumes = engine.api.inspect_image(tag)["Config"].get("Volumes") or {}
    output = engine.containers.run(
        tag,
        ["-c", script],
        entrypoint="sh",
        remove=True,
        read_only=True,
        network_mode="none",
        user=user,
        tmpfs=dict.fromkeys([*volumes, "/tmp"], ""),
    )
    return list(output.decode().split())


@contextmanager
def spoilt(engine: Client, base: str, *instructions: str) -> Iterator[str]:
    """The tag of an image that is `base` with more instructions; gone afterwards."""
    tag = "upheaval/spoilt-by-a-test:1"
    dockerfile = io.BytesIO("\n".join([f"FROM {base}", *instructions]).encode())
    engine.images.build(fileobj=dockerfile, tag=tag, rm=True, forcerm=True)
    try:
        yield tag
    finally:
        engine.images.remove(tag, force=True)


@contextmanager
def running(engine: Client, tag: str, command: list[str] | None = None, **settings: Any) -> Iterator[Any]:
    """A container, which is removed with its volumes afterwards."""
    container = engine.containers.run(tag, command, detach=True, labels={"upheaval.test": "images"}, **settings)
    try:
        yield container
    finally:
        container.remove(force=True, v=True)
