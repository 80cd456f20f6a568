"""The process runtime: real sockets, files, clock and signals behind the ports of the node."""
