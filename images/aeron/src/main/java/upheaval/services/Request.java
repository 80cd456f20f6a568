package upheaval.services;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;

/**
 * One operation that a client asks for; {@code value} and {@code expected} are null where they are absent.
 *
 * <p>Its bytes, little-endian: int64 operation id, uint8 operation, uint8 version, uint16 key length, int32 value
 * length, int32 expected length (-1 for absent), key in UTF-8, value, expected.
 */
public record Request(long operationId, int operation, String key, byte[] value, byte[] expected) {
    static final int VERSION = 1;
    static final long UNKNOWN_OPERATION_ID = -1;

    private static final int HEADER_LENGTH = 20;
    private static final int MAX_KEY_LENGTH = 1024;
    private static final int MAX_VALUE_LENGTH = 64 * 1024;
    private static final int ABSENT = -1;
    private static final int OPERATION_OFFSET = 8;

    /** Throws for anything but the exact form that {@link #encode} gives. */
    static Request decode(final byte[] bytes) throws DecodeException {
        if (bytes.length < HEADER_LENGTH) {
            throw new DecodeException("request of " + bytes.length + " bytes is shorter than its header");
        }
        final ByteBuffer buffer = Bytes.reading(bytes);
        final long operationId = buffer.getLong();
        final int operation = Byte.toUnsignedInt(buffer.get());
        final int version = Byte.toUnsignedInt(buffer.get());
        final int keyLength = Short.toUnsignedInt(buffer.getShort());
        final int valueLength = buffer.getInt();
        final int expectedLength = buffer.getInt();
        if (version != VERSION) {
            throw new DecodeException("request encoding version " + version + ", this service reads " + VERSION);
        }
        if (keyLength > MAX_KEY_LENGTH) {
            throw new DecodeException("key of " + keyLength + " bytes, limit is " + MAX_KEY_LENGTH);
        }
        if (!isLength(valueLength) || !isLength(expectedLength)) {
            final String lengths = valueLength + " or " + expectedLength;
            throw new DecodeException("value of " + lengths + " bytes, limit is " + MAX_VALUE_LENGTH);
        }
        final int end = HEADER_LENGTH + keyLength + Math.max(valueLength, 0) + Math.max(expectedLength, 0);
        if (end != bytes.length) {
            throw new DecodeException("request of " + bytes.length + " bytes says that it has " + end);
        }
        final String key = key(Bytes.next(buffer, keyLength));
        final byte[] value = valueLength == ABSENT ? null : Bytes.next(buffer, valueLength);
        final byte[] expected = expectedLength == ABSENT ? null : Bytes.next(buffer, expectedLength);
        return new Request(operationId, operation, key, value, expected);
    }

    /** The operation id of a request that may be broken. */
    static long peekOperationId(final byte[] bytes) {
        return bytes.length < Long.BYTES ? UNKNOWN_OPERATION_ID : Bytes.reading(bytes).getLong();
    }

    /** The operation code of a request that may be broken, 0 when it is too short. */
    static int peekOperation(final byte[] bytes) {
        return bytes.length > OPERATION_OFFSET ? Byte.toUnsignedInt(bytes[OPERATION_OFFSET]) : 0;
    }

    byte[] encode() {
        final byte[] name = Bytes.ofText(key);
        final int length = HEADER_LENGTH + name.length + length(value) + length(expected);
        final ByteBuffer buffer = Bytes.allocate(length);
        buffer.putLong(operationId).put((byte)operation).put((byte)VERSION).putShort((short)name.length);
        buffer.putInt(value == null ? ABSENT : value.length).putInt(expected == null ? ABSENT : expected.length);
        buffer.put(name);
        if (value != null) {
            buffer.put(value);
        }
        if (expected != null) {
            buffer.put(expected);
        }
        return buffer.array();
    }

    /** The value of a request that makes no sense without one. */
    byte[] requiredValue() throws OperationException {
        if (value == null) {
            throw new OperationException("the request has no value");
        }
        return value;
    }

    /** The value as an int64. */
    long requiredLong() throws OperationException {
        final byte[] bytes = requiredValue();
        if (bytes.length != Long.BYTES) {
            throw new OperationException("the value has " + bytes.length + " bytes instead of " + Long.BYTES);
        }
        return Bytes.reading(bytes).getLong();
    }

    private static boolean isLength(final int length) {
        return ABSENT <= length && length <= MAX_VALUE_LENGTH;
    }

    private static int length(final byte[] bytes) {
        return bytes == null ? 0 : bytes.length;
    }

    private static String key(final byte[] bytes) throws DecodeException {
        try {
            return Bytes.text(bytes);
        } catch (final CharacterCodingException notText) {
            throw new DecodeException("key is not UTF-8 text");
        }
    }
}
