"""Compile what is hot by mypyc into extension modules, beside the digests of what they were made from.

They take the place of the sources as long as these are the same; `upheaval doctor` says which form runs. What is
compiled, and what cannot be, is in `compiled_modules.py`.
"""

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import compiled_modules
from compiled_modules import ROOT, Module
from upheaval_node.compiled import FOLDER, INDEX, digest

WORK: Final = ROOT / "build" / "mypyc"
LIBRARY: Final = "upheaval"
SUFFIX: Final = str(sysconfig.get_config_var("EXT_SUFFIX"))
SOURCES: Final = ("node", "harness", "chaos")
"""The folders of packages that compiled modules import from."""


def files_read(modules: Sequence[Module]) -> dict[str, Path]:
    """The sources of our own that the modules import names from, by module: their constants are compiled in."""
    found: dict[str, Path] = {}
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                    for path in (ROOT / folder / f"{name.replace('.', '/')}.py" for folder in SOURCES):
                        if path.is_file():
                            found[name] = path
    return {name: path for name, path in sorted(found.items()) if name not in {each.name for each in modules}}


def make_index(modules: Sequence[Module]) -> dict[str, Any]:
    """What the extension modules stand for, as things are now."""
    return {
        "suffix": SUFFIX,
        "library": f"{LIBRARY}__mypyc",
        "modules": {module.name: digest(module.path.read_bytes()) for module in modules},
        "read": {name: digest(path.read_bytes()) for name, path in files_read(modules).items()},
    }


def build(modules: Sequence[Module], folder: Path, workers: int) -> None:
    """Fill a folder with the extension modules of these sources, and their index."""
    index = make_index(modules)
    say(f"translating {len(modules)} modules to C")
    from mypyc.build import mypycify

    paths = [str(module.path.relative_to(ROOT)) for module in modules]
    extensions = mypycify(
        ["--config-file", "pyproject.toml", *paths],
        opt_level="2",
        debug_level="0",
        multi_file=True,
        target_dir=str(WORK.relative_to(ROOT)),
        group_name=LIBRARY,
    )
    # Calls within the library then go where they are bound for, and not through its table of exported names. All
    # extensions share one list.
    extensions[0].extra_compile_args.append("-fvisibility=hidden")
    with tempfile.TemporaryDirectory(prefix="_compiled-", dir=WORK) as scratch:
        compile_all(extensions, Path(scratch), workers)
        if make_index(modules) != index:
            raise SystemExit("build_compiled: sources have changed meanwhile: build again")
        (Path(scratch) / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(scratch, folder)


def compile_all(extensions: Sequence[Any], target: Path, workers: int) -> None:
    """Have the C compiler make what has changed of them, several files at a time."""
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    total = sum(len(extension.sources) for extension in extensions)
    done = 0
    headers_ns = max(path.stat().st_mtime_ns for path in WORK.rglob("*.h"))

    class Build(build_ext):
        def build_extensions(self) -> None:
            compile_some = self.compiler.compile

            def one(source: str, options: dict[str, Any]) -> list[str]:
                nonlocal done
                objects: list[str] = self.compiler.object_filenames([source], output_dir=options["output_dir"])
                made = Path(objects[0])
                # Unchanged C files are left alone by mypyc.
                if not made.is_file() or made.stat().st_mtime_ns < max(headers_ns, Path(source).stat().st_mtime_ns):
                    compile_some([source], **options)
                done += 1
                if done % 25 == 0 or done == total:
                    say(f"compiled {done} of {total} files")
                return objects

            def several(sources: Sequence[str], **options: Any) -> list[str]:
                with ThreadPoolExecutor(workers) as pool:
                    return [each for objects in pool.map(lambda s: one(s, options), sources) for each in objects]

            self.compiler.compile = several
            super().build_extensions()

    command = Build(Distribution({"name": LIBRARY, "ext_modules": list(extensions)}))
    command.build_lib, command.build_temp = str(target), str(WORK / "objects")
    command.parallel = workers
    command.finalize_options()
    command.run()


def make_wheel(target: Path) -> Path:
    """A wheel for this Python and machine, from the folder that was built."""
    python = sys.executable
    with tempfile.TemporaryDirectory(prefix="wheel-") as scratch:
        run = subprocess.check_call
        run([python, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", scratch, str(ROOT)])
        (pure,) = Path(scratch).glob("*.whl")
        run([python, "-m", "wheel", "unpack", "--dest", scratch, str(pure)], stdout=subprocess.DEVNULL)
        pure.unlink()
        (unpacked,) = (path for path in Path(scratch).iterdir() if path.is_dir())
        shutil.copytree(FOLDER, unpacked / "upheaval_node" / FOLDER.name)
        run([python, "-m", "wheel", "pack", "--dest-dir", scratch, str(unpacked)], stdout=subprocess.DEVNULL)
        (packed,) = Path(scratch).glob("*.whl")
        version = f"cp{sys.version_info.major}{sys.version_info.minor}"
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        tags = ["--python-tag", version, "--abi-tag", version, "--platform-tag", platform]
        run([python, "-m", "wheel", "tags", "--remove", *tags, str(packed)], stdout=subprocess.DEVNULL)
        (tagged,) = Path(scratch).glob("*.whl")
        target.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(tagged, target))


def say(text: str) -> None:
    print(f"build_compiled: {text}", file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the modules, and why others are not compiled")
    parser.add_argument("--wheel", type=Path, metavar="FOLDER", help="also put a wheel of this platform there")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="C files at a time (default: cores)")
    options = parser.parse_args(arguments)
    os.chdir(ROOT)
    modules = compiled_modules.compiled_modules()
    if options.list:
        print(*(module.name for module in modules), sep="\n")
        print(*(f"not {name}: {why}" for name, why in sorted(compiled_modules.reasons().items())), sep="\n")
        return 0
    if shutil.which(str(sysconfig.get_config_var("CC") or "cc").split()[0]) is None:
        print("build_compiled: a C compiler is needed", file=sys.stderr)
        return 2
    index = FOLDER / INDEX
    if index.is_file() and json.loads(index.read_text(encoding="utf-8")) == make_index(modules):
        say("nothing has changed")
    else:
        build(modules, FOLDER, options.workers)
    if options.wheel is not None:
        say(f"wrote {make_wheel(options.wheel)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
