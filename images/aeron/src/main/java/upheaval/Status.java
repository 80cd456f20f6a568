package upheaval;

/** The numbered ends of a member's process, with the numbers and names that the members of Upheaval's own node have. */
enum Status {
    /** Ended by a signal, or with its cluster. */
    OK(0),
    /** An unforeseen error. */
    INTERNAL_ERROR(1),
    /** The configuration makes no sense. */
    USAGE(2),
    /** Another process of this member has ended. */
    COMPONENT_LOST(6),
    /** A component did not start, or decided that it must end. */
    TERMINATED(7);

    final int code;

    Status(final int code) {
        this.code = code;
    }
}
