"""The digest of the code of a user's service, by which a judge knows whether it has the code that the members ran.

The files are found by parsing, without importing: the service's module and what it imports, directly or not, from the
same folder. Modules that are named only at run time are not found. For a service in Java it is the class path.
"""

import ast
import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from upheaval.records.class_path import class_path_digest
from upheaval.records.run_folder import OWN_SYSTEM, Manifest

_INSTALLED: Final = ("site-packages", "dist-packages")


def code_digest(source: str, service: str, system: str) -> str:
    """The digest of the code of a service, in Python or in Java, depending on the system; empty without any."""
    return source_digest(source, service) if system == OWN_SYSTEM else class_path_digest(source, service)


def with_code_here(manifest: Manifest) -> Manifest:
    """The manifest with the current folder as `source` if that has the code that ran, and the folder that it names has
    it no more: a run that was copied to another machine is judged where the service's code is checked out.
    """
    if not manifest.source_digest or _has_code(manifest, manifest.source):
        return manifest
    try:
        here = str(Path.cwd())
    except OSError:
        return manifest
    if not _has_code(manifest, here):
        return manifest
    model_source = here if manifest.model_source == manifest.source else manifest.model_source
    return replace(manifest, source=here, model_source=model_source)


def _has_code(manifest: Manifest, folder: str) -> bool:
    return code_digest(folder, manifest.service, manifest.system) == manifest.source_digest


def source_digest(source: str, service: str) -> str:
    """SHA-256 over names and contents of the files of `module:Class` in the folder `source`; empty without any."""
    if not source or ":" not in service:
        return ""
    folder = Path(source)
    files = sorted(_files(folder, service.partition(":")[0]), key=lambda path: [*map(os.fsencode, path.parts)])
    whole = hashlib.sha256()
    for path in files:
        name, content = os.fsencode(path.relative_to(folder)), path.read_bytes()
        whole.update(b"%d %d " % (len(name), len(content)) + name + content)
    return whole.hexdigest() if files else ""


def service_folder(service: str, named: Path, system: str, model: str = "") -> Path:
    """The folder with the code of a service, and of its model: `named`, or one of the Python path if that has no such
    module.

    Members find the module there, too, and a replay needs the code that they ran. What is installed is left out: it
    would be copied into containers.
    """
    if system != OWN_SYSTEM or _has_module(named, service):
        return named
    folders = (Path(entry).absolute() for entry in sys.path if entry and Path(entry).name not in _INSTALLED)
    needed = [name for name in (service, model) if name]
    return next((folder for folder in folders if all(_has_module(folder, name) for name in needed)), named)


def _has_module(folder: Path, name: str) -> bool:
    """Whether the folder has the module of `module:Class`, or the module of that name."""
    return any(path.is_file() for path in _module_files(folder, name.partition(":")[0].split(".")))


def _module_files(folder: Path, parts: Sequence[str]) -> tuple[Path, Path]:
    """The files that a module of that name may be: itself, or that of a package."""
    base = folder.joinpath(*(os.fsdecode(part.encode()) for part in parts))
    return base.with_name(f"{base.name}.py"), base / "__init__.py"


def _files(folder: Path, module: str) -> set[Path]:
    files: set[Path] = set()
    left = [tuple(module.split("."))]
    while left:
        parts = left.pop()
        for number in range(1, len(parts) + 1):
            for path in _module_files(folder, parts[:number]):
                if path not in files and path.is_file():
                    files.add(path)
                    left += _imports(path, path.parent.relative_to(folder).parts)
    return files


def _imports(path: Path, package: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The imported names that may be modules, split at the dots."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            module = (*base, *(node.module or "").split(".")) if node.module else base
            yield from ((*module, alias.name) for alias in node.names)
