package rooms;

import io.aeron.FragmentAssembler;
import io.aeron.Image;
import io.aeron.logbuffer.Header;
import java.util.Map;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.IdleStrategy;
import rooms.messages.MessageHeaderDecoder;
import rooms.messages.SnapshotEndDecoder;
import rooms.messages.SnapshotHeadDecoder;
import rooms.messages.TakenRoomDecoder;

/** Reads what {@link SnapshotWriter} has written. */
final class SnapshotReader {
    private static final int FRAGMENTS = 10;

    private final MessageHeaderDecoder header = new MessageHeaderDecoder();
    private final SnapshotHeadDecoder head = new SnapshotHeadDecoder();
    private final TakenRoomDecoder room = new TakenRoomDecoder();
    private final SnapshotEndDecoder end = new SnapshotEndDecoder();
    private final Map<Integer, Booking> taken;
    private int bookings;
    private int refusals;
    private boolean isComplete;

    SnapshotReader(final Map<Integer, Booking> taken) {
        this.taken = taken;
    }

    int bookings() {
        return bookings;
    }

    int refusals() {
        return refusals;
    }

    /** Throws {@link IllegalStateException} for a snapshot without its end. */
    void read(final Image image, final IdleStrategy idle) {
        final FragmentAssembler assembler = new FragmentAssembler(this::onMessage);
        idle.reset();
        while (!isComplete) {
            final int fragments = image.poll(assembler, FRAGMENTS);
            if (fragments == 0 && (image.isClosed() || image.isEndOfStream())) {
                throw new IllegalStateException("the snapshot has no end");
            }
            idle.idle(fragments);
        }
    }

    private void onMessage(final DirectBuffer buffer, final int offset, final int length, final Header frame) {
        header.wrap(buffer, offset);
        switch (header.templateId()) {
            case SnapshotHeadDecoder.TEMPLATE_ID -> {
                head.wrapAndApplyHeader(buffer, offset, header);
                bookings = head.bookings();
                refusals = head.refusals();
            }
            case TakenRoomDecoder.TEMPLATE_ID -> {
                room.wrapAndApplyHeader(buffer, offset, header);
                final int number = room.room();
                taken.put(number, new Booking(room.booking(), room.requestId(), room.guest()));
            }
            case SnapshotEndDecoder.TEMPLATE_ID -> {
                end.wrapAndApplyHeader(buffer, offset, header);
                isComplete = true;
                if (end.rooms() != taken.size()) {
                    throw new IllegalStateException(taken.size() + " rooms instead of " + end.rooms());
                }
            }
            default -> throw new IllegalStateException("a message with template " + header.templateId());
        }
    }
}
