"""The objects that tests use: `Cluster` on any runtime, its clients, its load and its faults."""
