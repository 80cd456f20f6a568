"""Messages of an application in Simple Binary Encoding, read and written by the XML of their schema.

    schema = load_schema("protocol.xml")
    payload = schema.NewOrder(orderId=7, side="BUY", price=1250).encode()
    schema.decode(payload).orderId

The package has its own codec, because the values must be there wherever a run is judged, without Java. It knows no
message by name. The node's own protocol has tables and generated classes instead (`upheaval_node.protocol`).
"""

from upheaval_node.sbe.errors import SbeError, SchemaError
from upheaval_node.sbe.parser import load_schema, parse_schema
from upheaval_node.sbe.schema import MessageType, SbeMessage, SbeSchema
from upheaval_node.sbe.values import SbeValues, Value

__all__ = [
    "MessageType",
    "SbeError",
    "SbeMessage",
    "SbeSchema",
    "SbeValues",
    "SchemaError",
    "Value",
    "load_schema",
    "parse_schema",
]
