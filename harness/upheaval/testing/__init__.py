"""What tests hold in their hands: `Cluster` on any runtime, its clients, its load and its faults."""
