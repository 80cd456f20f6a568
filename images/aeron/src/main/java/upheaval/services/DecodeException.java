package upheaval.services;

/** Bytes that are not what they should be: a request of a client, or the state in a snapshot. */
public final class DecodeException extends Exception {
    private static final long serialVersionUID = 1L;

    /** The text goes to the client. */
    public DecodeException(final String text) {
        super(text);
    }
}
