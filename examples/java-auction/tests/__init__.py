"""The auction, tested on a cluster."""
