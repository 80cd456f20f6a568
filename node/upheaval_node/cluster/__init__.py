"""The consensus module: elections, the replicated log, client sessions."""
