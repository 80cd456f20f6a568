"""Builds images: finds or makes the base, fills the context, and builds only what is not built from these sources yet.

Knows images and the engine; it starts no clusters.
"""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from upheaval.errors import EnvironmentFault
from upheaval.images import bases, cache, packages, programs, sources
from upheaval.images.bases import Say
from upheaval.images.catalogue import Image
from upheaval.records import owned_folder
from upheaval.runtimes.docker.engine import Client, answers_closed, engine_errors, inspect
from upheaval_node import __version__


@dataclass(frozen=True, slots=True)
class ImageState:
    """What the engine has of an image. `is_current`: it was built from the sources that are here."""

    image: Image
    image_id: str | None
    size_mb: float = 0.0
    is_current: bool = False
    base: str = ""


def image_state(client: Client, image: Image) -> ImageState:
    """What the engine has under the image's tag."""
    attributes = inspect(client, image.tag)
    if attributes is None:
        return ImageState(image, None)
    labels = attributes["Config"].get("Labels") or {}
    is_current = labels.get("upheaval.source") == sources.source_digest(image)
    base = str(labels.get("upheaval.base", ""))
    return ImageState(image, str(attributes["Id"]), attributes["Size"] / 1e6, is_current, base)


def build(client: Client, image: Image, *, base: str | None, offline: bool, say: Say) -> ImageState:
    """Build one image, unless it is there, built from these sources on the base that is wished.

    `offline` takes a base that is made here instead of a registry's.
    """
    wished = base
    if image.parent is not None:
        build(client, image.parent, base=base, offline=offline, say=say)
        wished = image.parent.tag
    elif offline and base is None and image.offline_base is not None:
        wished = bases.require_base(client, image.offline_base, say)
    with cache.alone(image.tag, say):
        state = image_state(client, image)
        if state.is_current and (wished is None or _stands_on(client, image, wished)):
            say(f"{image.tag} is built from these sources")
            return state
        _build_in_new_folder(client, image, wished or image.default_base, say)
        built = image_state(client, image)
        if state.image_id not in (None, built.image_id):
            _remove_unused(client, state.image_id)
        return built


def _stands_on(client: Client, image: Image, base: str) -> bool:
    """Whether the image was built on what the engine now has under the base's name."""
    upper, lower = inspect(client, image.tag), inspect(client, base)
    if upper is None or lower is None:
        return False
    layers: list[str] = lower["RootFS"].get("Layers") or []
    return bool(upper["RootFS"]["Layers"][: len(layers)] == layers)


def _build_in_new_folder(client: Client, image: Image, base: str, say: Say) -> None:
    say(f"building {image.tag} on {base}")
    with owned_folder("image") as folder:
        try:
            _build(client, image, base, folder, say)
        except OSError as error:
            raise EnvironmentFault(f"building {image.tag}: {programs.explain(error)}") from error


def _build(client: Client, image: Image, base: str, folder: Path, say: Say) -> None:
    if image.requirements is not None:
        say(f"fetching the packages of {image.requirements}")
    if image.aeron_version:
        say(f"fetching Aeron {image.aeron_version}, and compiling members for it, where they are not there yet")
    fetched = packages.fetch(image, machine_of(client), folder)
    arguments = {
        "BASE_IMAGE": base,
        "VERSION": __version__,
        "SOURCE": sources.source_digest(image),
    }
    with (folder / "context.tar").open("w+b") as context:
        sources.write_context(image, fetched, context)
        context.seek(0)
        try:
            with engine_errors(f"building {image.tag}"), answers_closed(client):
                lines = client.api.build(
                    fileobj=context,
                    custom_context=True,
                    dockerfile=image.dockerfile,
                    tag=image.tag,
                    buildargs=arguments,
                    labels={"upheaval.base": base, **image.labels},
                    rm=True,
                    forcerm=True,
                    decode=True,
                )
                for line in lines:
                    _require_no_error(line, image, base)
        finally:
            _remove_stages(client, image)


def build_context(client: Client, context: IO[bytes], tag: str) -> float:
    """Build what a tar file with a Dockerfile says; its size in MB. Raises `EnvironmentFault`."""
    with engine_errors(f"building {tag}"), answers_closed(client):
        options = {"custom_context": True, "tag": tag, "rm": True, "forcerm": True, "decode": True}
        for line in client.api.build(fileobj=context, **options):
            if "error" in line:
                raise EnvironmentFault(f"building {tag} failed: {' '.join(str(line['error']).split())}")
    attributes = inspect(client, tag)
    return 0.0 if attributes is None else attributes["Size"] / 1e6


def _require_no_error(line: dict[str, Any], image: Image, base: str) -> None:
    if "error" in line:
        reason = " ".join(str(line["error"]).split())
        hint = " (without a registry: --offline)" if base == image.default_base and image.parent is None else ""
        raise EnvironmentFault(f"building {image.tag} failed: {reason}{hint}")


def _remove_stages(client: Client, image: Image) -> None:
    """What earlier stages of the build left without a name."""
    with contextlib.suppress(EnvironmentFault), engine_errors("cleaning up"):
        client.images.prune(filters={"dangling": True, "label": f"upheaval.stage={image.name}"})


def _remove_unused(client: Client, image_id: str | None) -> None:
    """The image that had the tag before, unless a container or another tag uses it."""
    with contextlib.suppress(EnvironmentFault), engine_errors("cleaning up"):
        if not client.api.inspect_image(image_id)["RepoTags"]:
            client.images.remove(image_id)


def machine_of(client: Client) -> str:
    """The architecture of the engine's machine."""
    with engine_errors("asking the engine for its machine"):
        return str(client.info()["Architecture"])
