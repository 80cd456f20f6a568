"""A replicated bank."""
