"""What `pyproject.toml` cannot say: files of the repository that go into the package, and the text for an index.

A wheel has the files of images, of compose files and of `upheaval init` below `upheaval/_repository`, where
`upheaval.repository` finds them, and the classes of Aeron's members that `tools/member_classes.py` made,
where it was run before.
"""

import re
import shutil
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
FOLDERS = ("images", "compose", "requirements", "member-classes", "examples/locks", "examples/java-stock")
NOT_SHIPPED = shutil.ignore_patterns("__pycache__", "runs", "target", "*.in")
RELATIVE_LINK = re.compile(r"(!?\[[^\]]*\])\((?!https?://|#|mailto:)([^)\s]+)\)")


class BuildWithRepository(build_py):
    """Adds the files of the repository to the package; an editable install has them where they are."""

    def run(self) -> None:
        if self.editable_mode:
            super().run()
            return
        # A build in the tree leaves its files there: a module that was removed since would be installed.
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        target = Path(self.build_lib) / "upheaval" / "_repository"
        for folder in FOLDERS:
            if (ROOT / folder).is_dir():
                shutil.copytree(ROOT / folder, target / folder, ignore=NOT_SHIPPED)


def readme_for_an_index() -> str:
    """The README with absolute links: an index shows it without the files beside it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = project["urls"]["Source"]

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link[1].startswith("!") else "blob"
        return f"{link[1]}({source}/{kind}/main/{link[2]})"

    return RELATIVE_LINK.sub(absolute, (ROOT / "README.md").read_text(encoding="utf-8"))


setup(
    cmdclass={"build_py": BuildWithRepository},
    long_description=readme_for_an_index(),
    long_description_content_type="text/markdown",
)
