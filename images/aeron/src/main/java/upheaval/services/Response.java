package upheaval.services;

import java.nio.ByteBuffer;
import java.util.List;

/**
 * The outcome of one operation.
 *
 * <p>Its bytes, little-endian: int64 operation id, int64 log position, uint8 operation, uint8 status, uint8 version,
 * uint8 shape, uint32 count, and so many times uint32 length and the bytes of a value.
 */
public record Response(long operationId, int operation, int status, long position, int shape, List<byte[]> values) {
    static final int OK = 0;
    static final int COMPARISON_FAILED = 1;
    static final int ERROR = 2;

    private static final int NOTHING = 0;
    private static final int VALUE = 1;
    private static final int LIST = 2;
    private static final int HEADER_LENGTH = 24;
    private static final int MAX_LENGTH = 1024 * 1024;

    /** Done; {@code value} may be null. */
    static Response accepted(final Request request, final long position, final byte[] value) {
        return of(request.operationId(), request.operation(), OK, position, value);
    }

    /** Done, without a value. */
    static Response accepted(final Request request, final long position) {
        return accepted(request, position, null);
    }

    /** Not done, because something is not as the request expects; {@code found} may be null. */
    static Response comparisonFailed(final Request request, final long position, final byte[] found) {
        return of(request.operationId(), request.operation(), COMPARISON_FAILED, position, found);
    }

    static Response list(final Request request, final long position, final List<byte[]> values) {
        return new Response(request.operationId(), request.operation(), OK, position, LIST, values);
    }

    /** Why a request, which may be broken, was not done. */
    static Response error(final byte[] request, final long position, final String text) {
        final long operationId = Request.peekOperationId(request);
        return of(operationId, Request.peekOperation(request), ERROR, position, Bytes.ofText(text));
    }

    private static Response of(
        final long operationId, final int operation, final int status, final long position, final byte[] value) {
        final List<byte[]> values = value == null ? List.of() : List.of(value);
        return new Response(operationId, operation, status, position, value == null ? NOTHING : VALUE, values);
    }

    /** Throws {@link IllegalStateException} for a response that is too long. */
    public byte[] encode() {
        long length = HEADER_LENGTH;
        for (final byte[] value : values) {
            length += Integer.BYTES + value.length;
        }
        if (length > MAX_LENGTH) {
            throw new IllegalStateException("response of " + length + " bytes, limit is " + MAX_LENGTH);
        }
        final ByteBuffer buffer = Bytes.allocate((int)length);
        buffer.putLong(operationId).putLong(position).put((byte)operation).put((byte)status);
        buffer.put((byte)Request.VERSION).put((byte)shape).putInt(values.size());
        for (final byte[] value : values) {
            buffer.putInt(value.length).put(value);
        }
        return buffer.array();
    }

    /** How long the values of one response may be together, each with the four bytes of its length. */
    static int maxListLength() {
        return MAX_LENGTH - 1024;
    }
}
