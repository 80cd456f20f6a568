"""Planted bugs: nodes that are wrong on purpose, to see that the checkers find it."""
