package upheaval.services;

/** The request cannot be done; the text goes to the client, and the state is as it was. */
public final class OperationException extends Exception {
    private static final long serialVersionUID = 1L;

    /** The text goes to the client. */
    public OperationException(final String text) {
        super(text);
    }
}
