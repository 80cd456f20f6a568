"""The docker runtime: one container a member."""
