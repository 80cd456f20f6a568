package stock;

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
 * Counts what is in stock. Messages are little-endian.
 *
 * <pre>
 * a request: int64 id, int32 item, int64 add
 * an answer: int64 id, int64 left
 * snapshot:  for each item int32 item, int64 left; an item of -1 ends it
 * </pre>
 */
public final class StockService implements ClusteredService {
    private static final int ANSWER_LENGTH = 16;
    private static final int RECORD_LENGTH = 12;
    private static final int NO_ITEM = -1;
    private static final int ATTEMPTS = 100;

    /** Sorted: equal states are written as equal bytes. */
    private final TreeMap<Integer, Long> items = new TreeMap<>();
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
        final int item = buffer.getInt(offset + 8, ByteOrder.LITTLE_ENDIAN);
        final long add = buffer.getLong(offset + 12, ByteOrder.LITTLE_ENDIAN);
        final long left = items.getOrDefault(item, 0L) + add;
        items.put(item, left);
        out.putLong(0, buffer.getLong(offset, ByteOrder.LITTLE_ENDIAN), ByteOrder.LITTLE_ENDIAN);
        out.putLong(8, left, ByteOrder.LITTLE_ENDIAN);
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
        items.forEach((item, left) -> write(snapshot, item, left));
        write(snapshot, NO_ITEM, 0);
    }

    private void write(final ExclusivePublication snapshot, final int item, final long left) {
        out.putInt(0, item, ByteOrder.LITTLE_ENDIAN);
        out.putLong(4, left, ByteOrder.LITTLE_ENDIAN);
        cluster.idleStrategy().reset();
        while (snapshot.offer(out, 0, RECORD_LENGTH) < 0) {
            cluster.idleStrategy().idle();
        }
    }

    private void load(final DirectBuffer buffer, final int offset, final int length, final Header header) {
        final int item = buffer.getInt(offset, ByteOrder.LITTLE_ENDIAN);
        isLoaded = item == NO_ITEM;
        if (!isLoaded) {
            items.put(item, buffer.getLong(offset + 4, ByteOrder.LITTLE_ENDIAN));
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
