"""Bases of images without a registry: Debian by debootstrap, or programs compiled by Go on nothing.

Each is imported into the engine as one layer, with a label that says from which recipe it was made. A base holds no
certificate of this machine and no list of packages. Knows nothing of the images built on it.
"""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from upheaval.errors import EnvironmentFault
from upheaval.images import cache, programs
from upheaval.images.catalogue import DEBIAN_SUITE, DebianBase, GoBase
from upheaval.records import owned_folder
from upheaval.runtimes.docker.engine import Client, engine_errors, inspect

RECIPE_LABEL: Final = "upheaval.recipe"
_RECIPE: Final = "3"
"""To be raised when this module makes something else of the same words."""

# Left empty in a base of Debian.
_SUPERFLUOUS: Final = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "var/lib/apt/lists",
    "var/cache/apt",
    "var/cache/debconf",
    "var/log",
    "tmp",
)
# Separate name spaces: however it ends, no process and no mount of it is left.
_DEBOOTSTRAP: Final = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "debootstrap", "--variant=minbase")
_CA_BUNDLES: Final = ("etc/ssl/certs/ca-certificates.crt", "usr/local/share/ca-certificates")

Say = Callable[[str], None]


def require_base(client: Client, base: DebianBase | GoBase, say: Say) -> str:
    """The tag of an offline base, which is made when the engine has none of this recipe."""
    with cache.alone(base.tag, say):
        if _recipe_in(client, base.tag) != recipe(base):
            _make(client, base, say)
    return base.tag


def _make(client: Client, base: DebianBase | GoBase, say: Say) -> None:
    with owned_folder("base") as folder:
        root, packed = folder / "root", folder / "root.tar"
        try:
            if isinstance(base, DebianBase):
                _bootstrap(base, root, say)
            else:
                _compile(base, root, say)
        except OSError as error:
            raise EnvironmentFault(f"making {base.tag}: {programs.explain(error)}") from error
        programs.run(["tar", "--numeric-owner", "-C", str(root), "-cf", str(packed), "."], "tar")
        _import(client, base, packed)


def recipe(base: DebianBase | GoBase) -> str:
    """One value for everything that a base is made from."""
    if isinstance(base, DebianBase):
        parts = ["debian", DEBIAN_SUITE, *base.include, *(f"without {package}" for package in base.without)]
    else:
        parts = ["go", base.version, base.linker_flags, *(" ".join(program) for program in base.programs)]
    return hashlib.sha256("\n".join([_RECIPE, *parts]).encode()).hexdigest()


def _recipe_in(client: Client, tag: str) -> str | None:
    attributes = inspect(client, tag)
    if attributes is None:
        return None
    value = (attributes["Config"].get("Labels") or {}).get(RECIPE_LABEL)
    return None if value is None else str(value)


def _import(client: Client, base: DebianBase | GoBase, packed: Path) -> None:
    repository, _, version = base.tag.partition(":")
    changes = [f"LABEL {RECIPE_LABEL}={recipe(base)}"]
    with engine_errors(f"importing {base.tag}"):
        client.api.import_image(src=str(packed), repository=repository, tag=version, changes=changes)


def _bootstrap(base: DebianBase, root: Path, say: Say) -> None:
    """Debian from the machine's own package source. Needs debootstrap and root."""
    if shutil.which("debootstrap") is None:
        raise EnvironmentFault("--offline needs debootstrap: install Debian's package of that name")
    if os.geteuid() != 0:
        raise EnvironmentFault("--offline needs root, because debootstrap does: run this one command as root")
    say(f"making {base.tag} with debootstrap: {', '.join(base.include)} (once; takes a minute)")
    options = [f"--include={','.join(base.include)}", f"--cache-dir={cache.folder('debian')}"]
    programs.run([*_DEBOOTSTRAP, *options, DEBIAN_SUITE, str(root)], "debootstrap")
    for name in (*_SUPERFLUOUS, "dev", "proc", "sys"):
        shutil.rmtree(root / name, ignore_errors=True)
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for name in (*_CA_BUNDLES, *base.without):
        target = root / name
        shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)


def _compile(base: GoBase, root: Path, say: Say) -> None:
    """Programs from their Go modules, at a stated version, without a C library."""
    go = shutil.which("go")
    if go is None:
        raise EnvironmentFault(f"--offline needs go to compile {base.tag}: install the Go tool chain")
    say(f"making {base.tag} with go (once; takes a minute)")
    root.mkdir()
    root.chmod(0o755)
    settings = {"CGO_ENABLED": "0", "GOBIN": str(root), "GOFLAGS": "-trimpath -buildvcs=false"}
    for package, name in base.programs:
        command = [go, "install", f"-ldflags={base.linker_flags}", f"{package}@{base.version}"]
        programs.run(command, "go", settings)
        (root / package.rpartition("/")[2]).rename(root / name)
