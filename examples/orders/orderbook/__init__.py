"""An order book whose messages are SBE."""
