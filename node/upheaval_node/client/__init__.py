"""The client of a cluster: a session that follows the leader, typed operations, and a blocking driver."""
