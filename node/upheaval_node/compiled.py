"""Which form of the hot modules runs: the extension modules that were made of them, or their sources.

Extension modules are in the folder `_compiled` beside this file, with an index of what they were made from. Compiled
modules hold constants of other modules and the layout of their objects, so either all of them run or none, and none
when one of these sources differs by a byte or runs already. It is decided once in a process, when the first of them is
imported. Knows nothing else of the package, and what is compiled only from the index.
"""

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

VARIABLE: Final = "UPHEAVAL_PURE"
"""With any value but 0 the sources run, here and in all processes that are started from here."""
FOLDER: Final = Path(__file__).resolve().parent / "_compiled"
INDEX: Final = "index.json"


class Form(NamedTuple):
    """How many modules run compiled, or why none does."""

    modules: int
    why_pure: str = ""

    def __str__(self) -> str:
        return f"pure Python: {self.why_pure}" if self.why_pure else f"compiled, {self.modules} modules"


class Index(NamedTuple):
    """What is in a folder of extension modules: the end of their names, who shares one library, digests by module."""

    suffix: str
    library: str
    modules: Mapping[str, str]
    read: Mapping[str, str]
    """Sources that went into them and have no extension module."""


class CompiledModules:
    """A finder of the import system for one folder of extension modules."""

    def __init__(self, folder: Path, why_pure: str = "") -> None:
        self._folder = folder
        self._index: Index | None = None
        self._form: Form | None = Form(0, why_pure) if why_pure else None
        if self._form is None:
            self._index = read_index(folder)
            self._form = Form(0, "nothing is compiled") if self._index is None else None

    @property
    def form(self) -> Form:
        """Asking decides it."""
        if self._form is None:
            assert self._index is not None
            why_pure = why_unfit(self._index) or _imported_before(self._index)
            self._form = Form(0 if why_pure else len(self._index.modules), why_pure)
        return self._form

    def use_pure(self, why: str) -> bool:
        """Have the sources run; False when it is too late for that, because compiled modules do."""
        if self._form is None:
            self._form = Form(0, why)
        return self._form.modules == 0

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the import system's signature
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """The extension module of that name, if there is one and compiled modules run."""
        index = self._index
        if index is None or not (name in index.modules or name == index.library) or not self.form.modules:
            return None
        file = str(self._folder.joinpath(*name.split("."))) + index.suffix
        return importlib.util.spec_from_file_location(name, file, loader=ExtensionFileLoader(name, file))


def read_index(folder: Path) -> Index | None:
    """The index of a folder of extension modules, if there is one."""
    # Most processes have none, and their start is not to wait for this.
    import json

    try:
        return Index(**json.loads((folder / INDEX).read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        # The package may be in an archive.
        return None


def digest(source: bytes) -> str:
    """The digest of a source, as in the index."""
    import hashlib

    return hashlib.sha256(source).hexdigest()


def why_unfit(index: Index, only: str = "") -> str:
    """Why extension modules cannot replace the sources that are here, of one package `only`; empty when they can."""
    if index.suffix not in EXTENSION_SUFFIXES:
        return f"compiled for another Python ({index.suffix})"
    packages: dict[str, dict[str, str]] = {}
    for name, expected in (*index.modules.items(), *index.read.items()):
        packages.setdefault(name.partition(".")[0], {})[name] = expected
    for package, modules in packages.items():
        if only not in ("", package):
            continue
        root = _folder_of(package)
        digests = {} if root is None else {name: _digest_of(root, name) for name in modules}
        # A member's image has no harness, or its public names alone: what is not there does not run.
        if any(digests.values()):
            changed = next((name for name, expected in modules.items() if digests[name] != expected), None)
            if changed is not None:
                return f"{changed} has changed since it was compiled"
    return ""


def _imported_before(index: Index) -> str:
    """Why it is too late: one of the sources runs already. Empty when none does."""
    name = next((name for name in index.modules if name in sys.modules), None)
    return "" if name is None else f"{name} was imported before that was decided"


def _folder_of(package: str) -> Path | None:
    """The folder that holds a package, if there is one."""
    spec = importlib.util.find_spec(package)
    places = None if spec is None else spec.submodule_search_locations
    return Path(next(iter(places))).parent if places else None


def _digest_of(root: Path, module: str) -> str:
    path = root.joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        try:
            return digest(file.read_bytes())
        except FileNotFoundError:
            continue
    return ""


def _asked_for_pure() -> str:
    return f"{VARIABLE} is set" if os.environ.get(VARIABLE, "0") not in ("", "0") else ""


_chosen: Final = CompiledModules(FOLDER, _asked_for_pure())


def install() -> None:
    """Have the import system ask for compiled modules first. Called when the package is imported."""
    sys.meta_path.insert(0, _chosen)


def form() -> Form:
    """What runs in this process."""
    return _chosen.form


def use_pure(why: str) -> bool:
    """Have the sources run, here and in all processes that are started from here; False when compiled modules do."""
    is_pure = _chosen.use_pure(why)
    if is_pure:
        os.environ[VARIABLE] = "1"
    return is_pure
