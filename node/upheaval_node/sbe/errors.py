"""What can be wrong with bytes, and with a schema."""

from upheaval_node.errors import DecodeError, UsageError


class SbeError(DecodeError):
    """Bytes that are no message of the schema, and why."""


class SchemaError(UsageError):
    """A schema that cannot be used: `FILE:LINE: what is wrong`."""
