"""The files of a member besides recordings, in Aeron's layout, over `ports.Storage`: no I/O of its own."""
