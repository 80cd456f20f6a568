"""`upheaval images list | build | check`: the container images."""

import json
import time
from typing import Any

from upheaval import images
from upheaval.cli.build_commands import BuildOptions, CheckImagesOptions, OwnImageOptions
from upheaval.cli.output import note
from upheaval.cli.parsing import JsonOptions
from upheaval.cli.tables import table
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.images import Image
from upheaval.runtimes.docker.engine import connected


def list_images(options: JsonOptions) -> int:
    """What the engine has."""
    with connected() as client:
        states = [images.image_state(client, image) for image in images.IMAGES]
    if options.json:
        print(json.dumps([_fields(state) for state in states], indent=2))
        return 0
    rows = [["image", "tag", "built", "MB", "limit MB", "on"]]
    for state in states:
        built = "no" if state.image_id is None else "yes" if state.is_current else "from other sources"
        size = "-" if state.image_id is None else f"{state.size_mb:.0f}"
        rows.append([state.image.name, state.image.tag, built, size, str(state.image.limit_mb), state.base or "-"])
    print(table(rows))
    return 0


def build(options: BuildOptions) -> int:
    """Build all images that users need, or those that are named. One that cannot be built keeps no other from it: the
    first failure is the error, the others precede it.
    """
    if options.base is not None and len(options.names) != 1:
        raise UsageError("--base is the base of one image: name it, as in `upheaval images build --base BASE node`")
    chosen = _chosen(options)
    built: list[dict[str, Any]] = []
    failures: list[EnvironmentFault] = []
    with connected() as client:
        for image in chosen:
            begin = time.monotonic()
            try:
                state = images.build(client, image, base=options.base, offline=options.offline, say=note)
            except EnvironmentFault as error:
                failures.append(error)
                continue
            seconds = time.monotonic() - begin
            built.append({**_fields(state), "seconds": round(seconds, 1)})
            if not options.json:
                print(f"{image.tag}: {state.size_mb:.0f} MB in {seconds:.0f} s", flush=True)
    if options.json:
        print(json.dumps(built, indent=2))
    for failure in failures[1:]:
        note(str(failure))
    if failures:
        raise failures[0]
    return 0


def own(options: OwnImageOptions) -> int:
    """Build an image of a custom service."""
    with connected() as client:
        count, size_mb = images.build_own(
            client, options.folder, options.tag, ignored=options.ignore, offline=options.offline, say=note
        )
    if options.json:
        print(json.dumps({"tag": options.tag, "files": count, "size_mb": round(size_mb, 1)}, indent=2))
    else:
        print(f"{options.tag}: {count} files of {options.folder}, {size_mb:.0f} MB")
    return 0


def check(options: CheckImagesOptions) -> int:
    """Whether images are there, current and fit. The first problem is the error; the others precede it."""
    chosen = _chosen(options)
    with connected() as client:
        problems_of = {image.name: images.problems_of(client, image) for image in chosen}
        states = {image.name: images.image_state(client, image) for image in chosen}
    if options.json:
        checked = [{**_fields(states[image.name]), "problems": problems_of[image.name]} for image in chosen]
        print(json.dumps(checked, indent=2))
    problems = [problem for image in chosen for problem in problems_of[image.name]]
    for problem in problems[1:]:
        note(problem)
    if problems:
        raise EnvironmentFault(problems[0])
    if not options.json:
        for image in chosen:
            print(f"{image.tag}: {states[image.name].size_mb:.0f} MB, fit for use")
    return 0


def _fields(state: images.ImageState) -> dict[str, Any]:
    return {
        "image": state.image.name,
        "tag": state.image.tag,
        "id": state.image_id,
        "is_current": state.is_current,
        "size_mb": round(state.size_mb, 1),
        "limit_mb": state.image.limit_mb,
        "base": state.base or None,
    }


def _chosen(options: BuildOptions | CheckImagesOptions) -> list[Image]:
    if options.aeron_version is not None and images.AERON.name not in options.names:
        raise UsageError("--aeron-version is for the image aeron: name it")
    named = [images.image_named(name, options.aeron_version) for name in options.names]
    return named or [image for image in images.IMAGES if not image.is_on_demand]
