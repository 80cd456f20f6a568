"""The promises of the shipped services, and those about exceptions and messages of services."""
