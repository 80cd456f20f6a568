"""The pages of the documentation, and their blocks."""

from pathlib import Path
from typing import Final, NamedTuple

from support.page_commands import DOCS, Block, blocks_of, run_block

ROOT: Final = DOCS.parent
PAGES: Final = tuple(
    sorted(
        str(path.relative_to(ROOT))
        for pattern in ("*.md", "docs/**/*.md", "examples/*/README.md")
        for path in ROOT.glob(pattern)
        if path.name != "CHANGELOG.md" and "_build" not in path.parts
    )
)


class PageBlock(NamedTuple):
    """A block of a page, its path relative to the repository."""

    page: str
    block: Block

    @property
    def language(self) -> str:
        """The first word of the fence."""
        return self.block.info.partition(" ")[0]

    @property
    def marks(self) -> dict[str, str]:
        """The other words of the fence: `nightly`, `file=NAME`, .."""
        words = (word.partition("=") for word in self.block.info.split()[1:])
        return {name: value for name, _, value in words}

    @property
    def place(self) -> str:
        """For messages and the names of tests."""
        return f"{self.page}:{self.block.line}"


def page_blocks(*languages: str) -> list[PageBlock]:
    """The blocks of all pages, or those in these languages."""
    found = [PageBlock(page, block) for page in PAGES for block in blocks_of(str(Path("..", page)))]
    return [block for block in found if not languages or block.language in languages]


def follow(page: str, folder: Path, left_out: frozenset[str]) -> list[str]:
    """Make the files of a page and run its commands, in its order; what each block of commands printed.

    Blocks with one of the marks `left_out` are passed over.
    """
    printed = []
    for step in page_blocks():
        if step.page != page or left_out & step.marks.keys():
            continue
        if "file" in step.marks:
            (folder / step.marks["file"]).write_text(step.block.text + "\n", encoding="utf-8")
        elif step.language == "sh":
            printed.append(run_block(page, step.block, folder))
    return printed
