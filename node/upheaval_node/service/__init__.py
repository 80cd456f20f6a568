"""Clustered services: the interface that an application implements, and the container that runs it."""
