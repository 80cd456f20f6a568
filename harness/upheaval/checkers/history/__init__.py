"""What clients asked and heard, against the log or by a search for an order."""
