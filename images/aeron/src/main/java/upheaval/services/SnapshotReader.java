package upheaval.services;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.util.Arrays;
import java.util.zip.CRC32;

/** Gives a state machine its records back from the messages of a snapshot, and finds out whether all are there. */
public final class SnapshotReader {
    private final StateMachine machine;
    private final CRC32 check = new CRC32();
    private long count;
    private boolean isComplete;

    /** Whose state it is. */
    public SnapshotReader(final StateMachine machine) {
        this.machine = machine;
    }

    /** Whether the end of the state has come, and all before it was as it was written. */
    public boolean isComplete() {
        return isComplete;
    }

    /** Take the next message. Throws for one that is not as it was written, or not of this service. */
    public void accept(final byte[] message) throws DecodeException {
        final ByteBuffer buffer = Bytes.reading(message);
        while (buffer.hasRemaining() && !isComplete) {
            final int begin = buffer.position();
            final StateRecord record = next(buffer);
            final byte[] encoded = Arrays.copyOfRange(message, begin, buffer.position());
            if (record.kind() == SnapshotWriter.END_KIND) {
                end(encoded);
            } else {
                machine.load(record);
                check.update(encoded);
                count++;
            }
        }
    }

    private void end(final byte[] encoded) throws DecodeException {
        if (!Arrays.equals(encoded, SnapshotWriter.end(count, check).encode())) {
            throw new DecodeException("state of " + count + " records is not as it was written");
        }
        isComplete = true;
    }

    private static StateRecord next(final ByteBuffer buffer) throws DecodeException {
        if (buffer.remaining() < StateRecord.HEADER_LENGTH) {
            throw new DecodeException("state record is shorter than its head");
        }
        final int kind = Byte.toUnsignedInt(buffer.get());
        buffer.get();
        final int keyLength = Short.toUnsignedInt(buffer.getShort());
        final long valueLength = Integer.toUnsignedLong(buffer.getInt());
        if (keyLength + valueLength > buffer.remaining()) {
            final long length = StateRecord.HEADER_LENGTH + keyLength + valueLength;
            throw new DecodeException("state record of " + length + " bytes in a message of " + buffer.limit());
        }
        try {
            final String key = Bytes.text(Bytes.next(buffer, keyLength));
            return new StateRecord(kind, key, Bytes.next(buffer, (int)valueLength));
        } catch (final CharacterCodingException notText) {
            throw new DecodeException("key of a state record is not UTF-8 text");
        }
    }
}
