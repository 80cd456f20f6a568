package upheaval;

import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.cluster.codecs.CloseReason;
import io.aeron.cluster.service.ClientSession;
import io.aeron.cluster.service.Cluster;
import io.aeron.cluster.service.ClusteredService;
import io.aeron.logbuffer.Header;
import java.io.IOException;
import org.agrona.DirectBuffer;
import org.agrona.LangUtil;

/**
 * Throws where a message tells it to: {@code background}, {@code checked}, or {@code interrupted}, in a
 * thread that has been.
 */
public final class ProvokedService implements ClusteredService {
    private boolean isBackgroundDue;

    @Override
    public void onStart(final Cluster cluster, final Image snapshotImage) {
    }

    @Override
    public void onSessionOpen(final ClientSession session, final long timestamp) {
    }

    @Override
    public void onSessionClose(final ClientSession session, final long timestamp, final CloseReason closeReason) {
    }

    @Override
    public void onSessionMessage(
        final ClientSession session,
        final long timestamp,
        final DirectBuffer buffer,
        final int offset,
        final int length,
        final Header header) {
        switch (buffer.getStringWithoutLengthAscii(offset, length)) {
            case "background" -> isBackgroundDue = true;
            case "checked" -> LangUtil.rethrowUnchecked(new IOException("checked"));
            case "interrupted" -> {
                Thread.currentThread().interrupt();
                throw new IllegalStateException("interrupted");
            }
            default -> session.offer(buffer, offset, length);
        }
    }

    @Override
    public int doBackgroundWork(final long nowNs) {
        if (isBackgroundDue) {
            isBackgroundDue = false;
            throw new IllegalStateException("background");
        }
        return 0;
    }

    @Override
    public void onTimerEvent(final long correlationId, final long timestamp) {
    }

    @Override
    public void onTakeSnapshot(final ExclusivePublication snapshotPublication) {
    }

    @Override
    public void onRoleChange(final Cluster.Role newRole) {
    }

    @Override
    public void onTerminate(final Cluster cluster) {
    }
}
