package upheaval.services;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/** Little-endian numbers and strict UTF-8, as all encodings here have them. */
final class Bytes {
    private Bytes() {
    }

    /** A buffer of that length to fill. */
    static ByteBuffer allocate(final int length) {
        return ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** The bytes to read. */
    static ByteBuffer reading(final byte[] bytes) {
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** The next bytes of the buffer, as an array of their own. */
    static byte[] next(final ByteBuffer buffer, final int length) {
        final byte[] bytes = new byte[length];
        buffer.get(bytes);
        return bytes;
    }

    /** Eight bytes. */
    static byte[] ofLong(final long number) {
        return allocate(Long.BYTES).putLong(number).array();
    }

    static byte[] ofText(final String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Throws for bytes that are not UTF-8. */
    static String text(final byte[] bytes) throws CharacterCodingException {
        return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
    }
}
