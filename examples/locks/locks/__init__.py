"""A replicated lock service with fencing tokens."""
