package upheaval.services;

import java.nio.ByteBuffer;

/**
 * One thing of a service's state; kinds count from 1 and are the service's own.
 *
 * <p>Its bytes, little-endian: uint8 kind, uint8 0, uint16 key length, uint32 value length, key in UTF-8, value.
 */
public record StateRecord(int kind, String key, byte[] value) {
    static final int HEADER_LENGTH = 8;

    byte[] encode() {
        final byte[] name = Bytes.ofText(key);
        final ByteBuffer buffer = Bytes.allocate(HEADER_LENGTH + name.length + value.length);
        buffer.put((byte)kind).put((byte)0).putShort((short)name.length).putInt(value.length).put(name).put(value);
        return buffer.array();
    }

    /** That it is no record of the service that it was given to. */
    DecodeException foreign(final String what) {
        return new DecodeException("record of kind " + kind + " with " + value.length + " bytes is not " + what);
    }
}
