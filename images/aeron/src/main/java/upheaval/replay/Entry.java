package upheaval.replay;

/** One message of a log, and the position of its end. */
record Entry(long position, byte[] content) {
}
