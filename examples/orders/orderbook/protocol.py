"""The messages of the order book, as `protocol.xml` has them."""

from pathlib import Path

from upheaval import load_schema

SCHEMA = load_schema(Path(__file__).parents[1] / "protocol.xml")
