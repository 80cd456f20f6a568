"""The stock, tested on a cluster."""
