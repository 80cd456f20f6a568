"""The runtimes a cluster can run in: simulated, process, docker."""
