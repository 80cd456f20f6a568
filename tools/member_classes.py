"""Compiles the members of Aeron for each version, for a wheel whose users need no javac: one zip file a version.

`setup.py` takes them into a wheel that is built afterwards. Equal classes give equal bytes.
"""

import shutil
import sys
import zipfile
from pathlib import Path
from typing import Final

from aeron_jar import ROOT, SHA256, member_classes
from upheaval.aeron_programs import READY_MADE, classes_name
from upheaval.errors import HarnessError

FOLDER: Final = ROOT / READY_MADE
EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The oldest time that a zip file can hold."""


def pack(classes: Path, path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(classes.rglob("*.class")):
            entry = zipfile.ZipInfo(file.relative_to(classes).as_posix(), EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, file.read_bytes())


def main() -> int:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    try:
        for version in SHA256:
            pack(member_classes(version), FOLDER / f"{classes_name(version)}.zip")
    except HarnessError as problem:
        print(f"member_classes: {problem}", file=sys.stderr)
        return 2
    print(f"{FOLDER}: {', '.join(SHA256)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
