"""The promises of the shipped services, and about what services raise and offer."""
