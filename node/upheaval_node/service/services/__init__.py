"""The services that come with the node: echo, register, append, and the workbench that has all three."""
