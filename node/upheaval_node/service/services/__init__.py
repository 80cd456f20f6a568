"""The services that come with the node: echo, register, append, the workbench that has all three, and timers."""
