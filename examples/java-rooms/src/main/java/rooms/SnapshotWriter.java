package rooms;

import io.aeron.ExclusivePublication;
import java.util.SortedMap;
import org.agrona.ExpandableArrayBuffer;
import org.agrona.concurrent.IdleStrategy;
import rooms.messages.MessageHeaderEncoder;
import rooms.messages.SnapshotEndEncoder;
import rooms.messages.SnapshotHeadEncoder;
import rooms.messages.TakenRoomEncoder;

/** Writes a state as a head, a message for each room that is taken, and an end. */
final class SnapshotWriter {
    private final ExclusivePublication publication;
    private final IdleStrategy idle;
    private final ExpandableArrayBuffer out = new ExpandableArrayBuffer();
    private final MessageHeaderEncoder header = new MessageHeaderEncoder();

    SnapshotWriter(final ExclusivePublication publication, final IdleStrategy idle) {
        this.publication = publication;
        this.idle = idle;
    }

    void write(final int bookings, final int refusals, final SortedMap<Integer, Booking> taken) {
        final SnapshotHeadEncoder head = new SnapshotHeadEncoder().wrapAndApplyHeader(out, 0, header);
        offer(head.bookings(bookings).refusals(refusals).encodedLength());
        taken.forEach(this::write);
        offer(new SnapshotEndEncoder().wrapAndApplyHeader(out, 0, header).rooms(taken.size()).encodedLength());
    }

    private void write(final int number, final Booking booking) {
        final TakenRoomEncoder room = new TakenRoomEncoder().wrapAndApplyHeader(out, 0, header);
        room.room(number).booking(booking.number()).requestId(booking.requestId()).guest(booking.guest());
        offer(room.encodedLength());
    }

    private void offer(final int encodedLength) {
        idle.reset();
        while (publication.offer(out, 0, MessageHeaderEncoder.ENCODED_LENGTH + encodedLength) < 0) {
            idle.idle();
        }
    }
}
