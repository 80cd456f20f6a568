package auction;

import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.cluster.codecs.CloseReason;
import io.aeron.cluster.service.ClientSession;
import io.aeron.cluster.service.Cluster;
import io.aeron.cluster.service.ClusteredService;
import io.aeron.logbuffer.Header;
import java.nio.ByteOrder;
import java.util.TreeMap;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Takes bids for lots. Messages are little-endian.
 *
 * <pre>
 * a bid:     int64 id, int32 lot, int32 bidder, int64 price
 * an answer: int64 id, int32 leads (1) or does not (0), int32 who leads, int64 price, int32 bids for the lot so far
 * snapshot:  for each lot int32 lot, int32 who leads, int64 price, int32 bids; a lot of -1 ends it
 * </pre>
 */
public final class AuctionService implements ClusteredService {
    private static final int ANSWER_LENGTH = 28;
    private static final int RECORD_LENGTH = 20;
    private static final int NO_LOT = -1;
    private static final int ATTEMPTS = 100;

    /** Sorted: equal states are written as equal bytes. */
    private final TreeMap<Integer, Lot> lots = new TreeMap<>();
    private final UnsafeBuffer out = new UnsafeBuffer(new byte[ANSWER_LENGTH]);
    private Cluster cluster;
    private boolean isLoaded;

    @Override
    public void onStart(final Cluster cluster, final Image snapshotImage) {
        this.cluster = cluster;
        while (snapshotImage != null && !isLoaded) {
            cluster.idleStrategy().idle(snapshotImage.poll(this::load, 10));
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
        final Lot lot = lots.computeIfAbsent(buffer.getInt(offset + 8, ByteOrder.LITTLE_ENDIAN), number -> new Lot());
        final int bidder = buffer.getInt(offset + 12, ByteOrder.LITTLE_ENDIAN);
        final boolean leads = lot.bid(bidder, buffer.getLong(offset + 16, ByteOrder.LITTLE_ENDIAN));
        out.putLong(0, buffer.getLong(offset, ByteOrder.LITTLE_ENDIAN), ByteOrder.LITTLE_ENDIAN);
        out.putInt(8, leads ? 1 : 0, ByteOrder.LITTLE_ENDIAN);
        out.putInt(12, lot.bidder(), ByteOrder.LITTLE_ENDIAN);
        out.putLong(16, lot.price(), ByteOrder.LITTLE_ENDIAN);
        out.putInt(24, lot.bids(), ByteOrder.LITTLE_ENDIAN);
        answer(session);
    }

    /** An answer that its client does not take is given up: the log must go on. */
    private void answer(final ClientSession session) {
        cluster.idleStrategy().reset();
        for (int attempt = 0; attempt < ATTEMPTS && session.offer(out, 0, ANSWER_LENGTH) < 0; attempt++) {
            cluster.idleStrategy().idle();
        }
    }

    @Override
    public void onTakeSnapshot(final ExclusivePublication snapshot) {
        lots.forEach((number, lot) -> write(snapshot, number, lot));
        write(snapshot, NO_LOT, new Lot());
    }

    private void write(final ExclusivePublication snapshot, final int number, final Lot lot) {
        out.putInt(0, number, ByteOrder.LITTLE_ENDIAN);
        out.putInt(4, lot.bidder(), ByteOrder.LITTLE_ENDIAN);
        out.putLong(8, lot.price(), ByteOrder.LITTLE_ENDIAN);
        out.putInt(16, lot.bids(), ByteOrder.LITTLE_ENDIAN);
        cluster.idleStrategy().reset();
        while (snapshot.offer(out, 0, RECORD_LENGTH) < 0) {
            cluster.idleStrategy().idle();
        }
    }

    private void load(final DirectBuffer buffer, final int offset, final int length, final Header header) {
        final int number = buffer.getInt(offset, ByteOrder.LITTLE_ENDIAN);
        final int bidder = buffer.getInt(offset + 4, ByteOrder.LITTLE_ENDIAN);
        final long price = buffer.getLong(offset + 8, ByteOrder.LITTLE_ENDIAN);
        isLoaded = number == NO_LOT;
        if (!isLoaded) {
            lots.put(number, new Lot(bidder, price, buffer.getInt(offset + 16, ByteOrder.LITTLE_ENDIAN)));
        }
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
