"""Wheels of packages that exist in tests only."""

from pathlib import Path
from zipfile import ZipFile


def make_wheel(folder: Path, name: str, needs: str = "") -> None:
    """A pure one with a single module."""
    info = f"{name}-1.0.dist-info"
    required = f"Requires-Dist: {needs}\n" if needs else ""
    with ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", f"NAME = {name!r}\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{required}")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
