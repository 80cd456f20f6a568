"""`upheaval images list | build | check`: the container images."""

import argparse
import sys
import time

from upheaval import images
from upheaval.cli.tables import table
from upheaval.errors import EnvironmentFault
from upheaval.images import Image
from upheaval.runtimes.docker.engine import connect


def list_images(_: argparse.Namespace) -> int:
    """What the engine has."""
    client = connect()
    rows = [["image", "tag", "built", "MB", "limit MB"]]
    for image in images.IMAGES:
        state = images.image_state(client, image)
        built = "no" if state.image_id is None else "yes" if state.is_current else "from other sources"
        size = "-" if state.image_id is None else f"{state.size_mb:.0f}"
        rows.append([image.name, image.tag, built, size, str(image.limit_mb)])
    print(table(rows))
    return 0


def build(options: argparse.Namespace) -> int:
    """Build all images, or those that are named."""
    client = connect()
    for image in _chosen(options.names):
        begin = time.monotonic()
        state = images.build(client, image, base=options.base, offline=options.offline, say=_say)
        print(f"built {image.tag}: {state.size_mb:.0f} MB in {time.monotonic() - begin:.0f} s")
    return 0


def check(options: argparse.Namespace) -> int:
    """Whether images are there, current and fit. The first problem is the error; the others precede it."""
    client = connect()
    problems = [problem for image in _chosen(options.names) for problem in images.problems_of(client, image)]
    for problem in problems[1:]:
        _say(problem)
    if problems:
        raise EnvironmentFault(problems[0])
    for image in _chosen(options.names):
        print(f"{image.tag}: {images.image_state(client, image).size_mb:.0f} MB, fit for use")
    return 0


def _chosen(names: list[str]) -> list[Image]:
    return [images.image_named(name) for name in names] or list(images.IMAGES)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
