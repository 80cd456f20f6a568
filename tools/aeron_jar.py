"""Has Aeron's jars, and our member program compiled against one, before anything is installed: says where they are.

What is there is neither fetched nor compiled again. How they are had is in `upheaval.aeron_jars`.
"""

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / name) for name in ("harness", "chaos", "node")]

from upheaval.aeron_jars import SHA256, USUAL_VERSION, canonical_version, jar, jar_path  # noqa: E402
from upheaval.aeron_programs import member_classes  # noqa: E402
from upheaval.errors import HarnessError  # noqa: E402

__all__ = ["JAR", "SHA256", "VERSION", "jar", "jar_path", "member_classes"]

VERSION = USUAL_VERSION
JAR = jar_path(VERSION)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default=VERSION, help="of Aeron, or the path of a jar or a build")
    parser.add_argument("--all", action="store_true", help="have the jars of all versions")
    parser.add_argument("--member", action="store_true", help="the class path of the member program: jar and classes")
    arguments = parser.parse_args()
    try:
        for version in SHA256 if arguments.all else ():
            jar(version)
        version = canonical_version(arguments.version)
        found = [jar(version)]
        if arguments.member:
            found.append(member_classes(version))
    except HarnessError as problem:
        print(f"aeron_jar: {problem}", file=sys.stderr)
        return 2
    print(os.pathsep.join(map(str, found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
