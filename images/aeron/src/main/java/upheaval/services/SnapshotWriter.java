package upheaval.services;

import java.io.ByteArrayOutputStream;
import java.util.function.Consumer;
import java.util.zip.CRC32;

/**
 * Makes the messages of a snapshot of records: runs of them, and at the end a record of kind 0 with their number and
 * CRC-32, so that a state of which anything is missing is never taken for a whole one.
 */
public final class SnapshotWriter {
    static final int END_KIND = 0;

    private static final int RUN_LENGTH = 4096;

    private final Consumer<byte[]> messages;
    private final ByteArrayOutputStream run = new ByteArrayOutputStream();
    private final CRC32 check = new CRC32();
    private long count;

    /** What takes the messages, in order. */
    public SnapshotWriter(final Consumer<byte[]> messages) {
        this.messages = messages;
    }

    /** Write all of a state. */
    public void write(final StateMachine machine) {
        machine.forEachRecord(this::add);
        flush();
        messages.accept(end(count, check).encode());
    }

    static StateRecord end(final long count, final CRC32 check) {
        final byte[] value = Bytes.allocate(Long.BYTES + Integer.BYTES).putLong(count).putInt((int)check.getValue()).array();
        return new StateRecord(END_KIND, "", value);
    }

    private void add(final StateRecord record) {
        final byte[] encoded = record.encode();
        if (run.size() > 0 && run.size() + encoded.length > RUN_LENGTH) {
            flush();
        }
        run.writeBytes(encoded);
        check.update(encoded);
        count++;
    }

    private void flush() {
        if (run.size() > 0) {
            messages.accept(run.toByteArray());
            run.reset();
        }
    }
}
