package upheaval.services;

import java.util.function.Consumer;

/**
 * A count of what clients send, a checksum of all messages, and its messages to itself. It answers no client: it
 * runs beside another service of a member, which does.
 */
public final class Tally extends StateMachine {
    private static final int KIND = 7;
    private static final int MESSAGES_AN_OFFER = 8;
    private static final int POLYNOMIAL = 0xEDB88320;
    private static final int LENGTH = Long.BYTES + Integer.BYTES;

    private long messages;
    private int checksum;

    @Override
    public Response perform(final byte[] message, final long position) {
        add(message);
        messages++;
        if (messages % MESSAGES_AN_OFFER == 0) {
            surroundings().offer(state());
        }
        return null;
    }

    /** It is in the checksum and does not count. */
    @Override
    public void onServiceMessage(final byte[] message, final long position) {
        add(message);
    }

    @Override
    public void forEachRecord(final Consumer<StateRecord> consumer) {
        consumer.accept(new StateRecord(KIND, "", state()));
    }

    @Override
    public void load(final StateRecord record) throws DecodeException {
        if (record.kind() != KIND || record.value().length != LENGTH) {
            throw record.foreign("one of a tally");
        }
        final var buffer = Bytes.reading(record.value());
        messages = buffer.getLong();
        checksum = buffer.getInt();
    }

    /** CRC-32, which java.util.zip does not go on with from a snapshot. */
    private void add(final byte[] message) {
        int sum = ~checksum;
        for (final byte each : message) {
            sum ^= each & 0xFF;
            for (int bit = 0; bit < Byte.SIZE; bit++) {
                sum = (sum & 1) == 0 ? sum >>> 1 : sum >>> 1 ^ POLYNOMIAL;
            }
        }
        checksum = ~sum;
    }

    private byte[] state() {
        return Bytes.allocate(LENGTH).putLong(messages).putInt(checksum).array();
    }
}
