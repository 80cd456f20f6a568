package desk;

import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.Publication;
import io.aeron.cluster.codecs.CloseReason;
import io.aeron.cluster.service.ClientSession;
import io.aeron.cluster.service.Cluster;
import io.aeron.cluster.service.ClusteredService;
import io.aeron.logbuffer.FragmentHandler;
import io.aeron.logbuffer.Header;
import java.nio.ByteOrder;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/** The position of one desk. A request is its number and what it adds; the answer is that number and the new position. */
public final class DeskService implements ClusteredService {
    private final UnsafeBuffer message = new UnsafeBuffer(new byte[2 * Long.BYTES]);
    private Cluster cluster;
    private long position;

    @Override
    public void onStart(final Cluster cluster, final Image snapshotImage) {
        this.cluster = cluster;
        position = 0;
        if (snapshotImage == null) {
            return;
        }
        final FragmentHandler reader = (buffer, offset, length, header) ->
            position = buffer.getLong(offset, ByteOrder.LITTLE_ENDIAN);
        while (snapshotImage.poll(reader, 1) == 0) {
            cluster.idleStrategy().idle();
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
        position += buffer.getLong(offset + Long.BYTES, ByteOrder.LITTLE_ENDIAN);
        message.putLong(0, buffer.getLong(offset, ByteOrder.LITTLE_ENDIAN), ByteOrder.LITTLE_ENDIAN);
        message.putLong(Long.BYTES, position, ByteOrder.LITTLE_ENDIAN);
        cluster.idleStrategy().reset();
        long result = session.offer(message, 0, message.capacity());
        while (result == Publication.BACK_PRESSURED || result == Publication.ADMIN_ACTION) {
            cluster.idleStrategy().idle();
            result = session.offer(message, 0, message.capacity());
        }
    }

    @Override
    public void onTakeSnapshot(final ExclusivePublication snapshotPublication) {
        message.putLong(0, position, ByteOrder.LITTLE_ENDIAN);
        while (snapshotPublication.offer(message, 0, Long.BYTES) < 0) {
            cluster.idleStrategy().idle();
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
