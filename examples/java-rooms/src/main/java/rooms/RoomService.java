package rooms;

import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.cluster.codecs.CloseReason;
import io.aeron.cluster.service.ClientSession;
import io.aeron.cluster.service.Cluster;
import io.aeron.cluster.service.ClusteredService;
import io.aeron.logbuffer.Header;
import java.util.Map;
import java.util.TreeMap;
import org.agrona.DirectBuffer;
import org.agrona.ExpandableArrayBuffer;
import rooms.messages.BookDecoder;
import rooms.messages.BookedEncoder;
import rooms.messages.GuestsEncoder;
import rooms.messages.LeaveDecoder;
import rooms.messages.LeftEncoder;
import rooms.messages.ListGuestsDecoder;
import rooms.messages.MessageHeaderDecoder;
import rooms.messages.MessageHeaderEncoder;
import rooms.messages.Reason;
import rooms.messages.RefusedEncoder;

/** Books the rooms of a hotel. {@code protocol.xml} has the requests, the answers and the messages of snapshots. */
public final class RoomService implements ClusteredService {
    private static final int HEAD = MessageHeaderEncoder.ENCODED_LENGTH;
    private static final int ATTEMPTS = 100;

    private final MessageHeaderDecoder headIn = new MessageHeaderDecoder();
    private final BookDecoder book = new BookDecoder();
    private final LeaveDecoder leave = new LeaveDecoder();
    private final ListGuestsDecoder listGuests = new ListGuestsDecoder();

    private final ExpandableArrayBuffer out = new ExpandableArrayBuffer();
    private final MessageHeaderEncoder headOut = new MessageHeaderEncoder();
    private final BookedEncoder booked = new BookedEncoder();
    private final LeftEncoder left = new LeftEncoder();
    private final GuestsEncoder guests = new GuestsEncoder();
    private final RefusedEncoder refused = new RefusedEncoder();

    /** By room, sorted: equal states are written as equal bytes. */
    private final TreeMap<Integer, Booking> taken = new TreeMap<>();
    private int bookings;
    private int refusals;
    private Cluster cluster;

    @Override
    public void onStart(final Cluster cluster, final Image snapshotImage) {
        this.cluster = cluster;
        if (snapshotImage != null) {
            final SnapshotReader snapshot = new SnapshotReader(taken);
            snapshot.read(snapshotImage, cluster.idleStrategy());
            bookings = snapshot.bookings();
            refusals = snapshot.refusals();
        }
    }

    @Override
    public void onSessionMessage(
        final ClientSession session,
        final long timestamp,
        final DirectBuffer buffer,
        final int offset,
        final int length,
        final Header header) {
        final int answerLength = perform(buffer, offset, length);
        cluster.idleStrategy().reset();
        // An answer that its client does not take is given up: the log must go on.
        for (int attempt = 0; attempt < ATTEMPTS && session.offer(out, 0, answerLength) < 0; attempt++) {
            cluster.idleStrategy().idle();
        }
    }

    @Override
    public void onTakeSnapshot(final ExclusivePublication snapshot) {
        new SnapshotWriter(snapshot, cluster.idleStrategy()).write(bookings, refusals, taken);
    }

    /** Does what a message asks for, and encodes the answer. Returns its length. */
    private int perform(final DirectBuffer buffer, final int offset, final int length) {
        if (length < HEAD) {
            return refuse(0, Reason.NOT_A_REQUEST);
        }
        headIn.wrap(buffer, offset);
        if (headIn.schemaId() != MessageHeaderDecoder.SCHEMA_ID || length < HEAD + headIn.blockLength()) {
            return refuse(0, Reason.NOT_A_REQUEST);
        }
        return switch (headIn.templateId()) {
            case BookDecoder.TEMPLATE_ID -> {
                book.wrapAndApplyHeader(buffer, offset, headIn);
                yield book(book.requestId(), book.room(), book.guest());
            }
            case LeaveDecoder.TEMPLATE_ID -> {
                leave.wrapAndApplyHeader(buffer, offset, headIn);
                yield leave(leave.requestId(), leave.booking());
            }
            case ListGuestsDecoder.TEMPLATE_ID -> {
                listGuests.wrapAndApplyHeader(buffer, offset, headIn);
                yield list(listGuests.requestId());
            }
            default -> refuse(0, Reason.NOT_A_REQUEST);
        };
    }

    private int book(final long requestId, final int room, final String guest) {
        Booking booking = taken.get(room);
        if (booking != null && booking.requestId() != requestId) {
            return refuse(requestId, Reason.OCCUPIED);
        }
        if (booking == null) {
            booking = new Booking(++bookings, requestId, guest);
            taken.put(room, booking);
        }
        booked.wrapAndApplyHeader(out, 0, headOut).requestId(requestId).booking(booking.number());
        return HEAD + booked.encodedLength();
    }

    private int leave(final long requestId, final int number) {
        for (final Map.Entry<Integer, Booking> room : taken.entrySet()) {
            if (room.getValue().number() == number) {
                taken.remove(room.getKey());
                left.wrapAndApplyHeader(out, 0, headOut).requestId(requestId).room(room.getKey());
                return HEAD + left.encodedLength();
            }
        }
        return refuse(requestId, Reason.UNKNOWN_BOOKING);
    }

    private int list(final long requestId) {
        guests.wrapAndApplyHeader(out, 0, headOut).requestId(requestId);
        final GuestsEncoder.RoomsEncoder rooms = guests.roomsCount(taken.size());
        taken.forEach((room, booking) -> rooms.next().room(room).guest(booking.guest()));
        return HEAD + guests.encodedLength();
    }

    private int refuse(final long requestId, final Reason reason) {
        refusals++;
        refused.wrapAndApplyHeader(out, 0, headOut).requestId(requestId).reason(reason);
        return HEAD + refused.encodedLength();
    }

    @Override
    public void onSessionOpen(final ClientSession session, final long timestamp) {
    }

    @Override
    public void onSessionClose(final ClientSession session, final long timestamp, final CloseReason closeReason) {
    }

    @Override
    public void onTimerEvent(final long correlationId, final long timestamp) {
    }

    @Override
    public void onRoleChange(final Cluster.Role newRole) {
    }

    @Override
    public void onTerminate(final Cluster cluster) {
    }
}
