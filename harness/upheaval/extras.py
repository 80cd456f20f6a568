"""The optional parts: a line that installs what one needs, whether or not an index has `upheaval`."""

import re

_OF_EXTRA = re.compile(r"""(?P<name>[^;]+?)\s*;\s*extra\s*==\s*['"](?P<extra>[^'"]+)['"]""")


def install_line(extra: str) -> str:
    """The command, such as `pip install 'locust>=2.20'`; it names the extra where the package has no metadata."""
    # With it comes the package of e-mail, which commands that lack nothing would import, too.
    from importlib.metadata import PackageNotFoundError, requires

    try:
        requirements = [match for text in requires("upheaval") or () if (match := _OF_EXTRA.fullmatch(text))]
    except PackageNotFoundError:
        requirements = []
    packages = [match["name"] for match in requirements if match["extra"] == extra] or [f"upheaval[{extra}]"]
    return " ".join(["pip install", *(f"'{package}'" for package in packages)])
