"""The operations of an operator on whole clusters: restore from a backup, upgrade, replace a host."""
