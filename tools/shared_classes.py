"""Writes the list of the classes that programs of Aeron load, for archives of class data sharing.

Runs a cluster whose members write down what they load, and leaves out the harness's own classes, which are in no jar.
The list is of one version of Aeron; Java passes over names that another version lacks.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from aeron_jar import ROOT
from upheaval.aeron_programs import OPTIONS_VARIABLE
from upheaval.errors import HarnessError
from upheaval.runtimes.process import ProcessCluster
from upheaval.shared_classes import CLASS_LIST
from upheaval.system import ClusterSpec

OURS: Final = "upheaval"
COMMENT: Final = "#"


def loaded_classes(folder: Path) -> list[str]:
    """What the members of a cluster load, in the order of the first that does."""
    os.environ[OPTIONS_VARIABLE] = f"-Xshare:auto -XX:DumpLoadedClassList={folder}/%p.classes"
    cluster = ProcessCluster.create(folder / "cluster", ClusterSpec(system="aeron"))
    try:
        cluster.up()
    finally:
        cluster.down()
    lines = [line for file in sorted(folder.glob("*.classes")) for line in file.read_text("utf-8").splitlines()]
    return list(dict.fromkeys(line for line in lines if OURS not in line and not line.startswith(COMMENT)))


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="shared-classes-") as folder:
        try:
            lines = loaded_classes(Path(folder))
        except HarnessError as problem:
            print(f"shared_classes: {problem}", file=sys.stderr)
            return 2
    (ROOT / CLASS_LIST).write_text("\n".join([*lines, ""]), encoding="utf-8")
    print(f"{CLASS_LIST}: {len(lines)} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
