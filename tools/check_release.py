"""Whether a tag may become a release: it names the version of the package, and the changelog has a section of it."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "node")]

from upheaval_node import __version__  # noqa: E402


def problem_of(tag: str, version: str, changelog: str) -> str | None:
    """None for a tag that may be released."""
    if tag != f"v{version}":
        return f"the tag is {tag}, and the package has version {version}: set upheaval_node.__version__ first"
    section = re.search(rf"^## {re.escape(version)}(?: [^\n]*)?$(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if section is None or not re.search(r"^- ", section[1], re.MULTILINE):
        return f"CHANGELOG.md has no section `## {version}` with entries: rename Unreleased"
    return None


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: check_release.py TAG", file=sys.stderr)
        return 2
    problem = problem_of(arguments[0], __version__, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    if problem is not None:
        print(f"check_release: {problem}", file=sys.stderr)
        return 2
    print(f"check_release: {arguments[0]} may be released")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
