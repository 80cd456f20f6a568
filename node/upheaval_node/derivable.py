"""Marks classes from which classes of users derive, so that they may when modules are compiled.

`@mypyc_attr(allow_interpreted_subclasses=True)` is read by the compiler alone. Knows no class.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(**_options):
        """Change nothing when the sources run, where the compiler's package need not be."""
        return lambda kind: kind
