"""The process runtime: real sockets, files, clock and signals for the ports of the node."""
