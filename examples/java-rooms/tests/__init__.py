"""The hotel, tested on a cluster."""
