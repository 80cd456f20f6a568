"""What lies on a member's disk besides recordings, in Aeron's layout, over `ports.Storage`: no I/O of its own."""
