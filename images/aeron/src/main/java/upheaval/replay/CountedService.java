package upheaval.replay;

import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.cluster.codecs.CloseReason;
import io.aeron.cluster.service.ClientSession;
import io.aeron.cluster.service.Cluster;
import io.aeron.cluster.service.ClusteredService;
import io.aeron.logbuffer.Header;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.AgentTerminationException;

/** Counts what a service has handled of the log, and notes what its callbacks throw; the container hears that, too. */
final class CountedService implements ClusteredService {
    private final ClusteredService service;
    private final AtomicLong requests = new AtomicLong();
    private volatile long position;
    private volatile String raised;
    private volatile Throwable thrown;
    private Cluster cluster;

    CountedService(final ClusteredService service) {
        this.service = service;
    }

    /** Of clients, since its start. */
    long requests() {
        return requests.get();
    }

    /** Of the last entry that it handled. */
    long position() {
        return position;
    }

    /** What a callback threw since the last call of this method; null if none did. */
    String takeRaised() {
        final String text = raised;
        raised = null;
        return text;
    }

    /** Whether the service threw that, or what caused it. */
    boolean hasThrown(final Throwable error) {
        return error != null && (error == thrown || hasThrown(error.getCause()));
    }

    @Override
    public void onStart(final Cluster cluster, final Image snapshotImage) {
        this.cluster = cluster;
        service.onStart(cluster, snapshotImage);
    }

    @Override
    public void onSessionOpen(final ClientSession session, final long timestamp) {
        entry("onSessionOpen", () -> service.onSessionOpen(session, timestamp));
    }

    @Override
    public void onSessionClose(final ClientSession session, final long timestamp, final CloseReason closeReason) {
        entry("onSessionClose", () -> service.onSessionClose(session, timestamp, closeReason));
    }

    @Override
    public void onSessionMessage(
        final ClientSession session,
        final long timestamp,
        final DirectBuffer buffer,
        final int offset,
        final int length,
        final Header header) {
        try {
            entry("onSessionMessage", () -> service.onSessionMessage(session, timestamp, buffer, offset, length, header));
        } finally {
            if (session != null) {
                requests.incrementAndGet();
            }
        }
    }

    @Override
    public void onTimerEvent(final long correlationId, final long timestamp) {
        entry("onTimerEvent", () -> service.onTimerEvent(correlationId, timestamp));
    }

    @Override
    public void onTakeSnapshot(final ExclusivePublication snapshotPublication) {
        service.onTakeSnapshot(snapshotPublication);
    }

    @Override
    public void onRoleChange(final Cluster.Role newRole) {
        service.onRoleChange(newRole);
    }

    @Override
    public void onTerminate(final Cluster cluster) {
        service.onTerminate(cluster);
    }

    @Override
    public void onNewLeadershipTermEvent(
        final long leadershipTermId,
        final long logPosition,
        final long timestamp,
        final long termBaseLogPosition,
        final int leaderMemberId,
        final int logSessionId,
        final TimeUnit timeUnit,
        final int appVersion) {
        entry("onNewLeadershipTermEvent", () -> service.onNewLeadershipTermEvent(leadershipTermId, logPosition,
            timestamp, termBaseLogPosition, leaderMemberId, logSessionId, timeUnit, appVersion));
    }

    @Override
    public int doBackgroundWork(final long nowNs) {
        return service.doBackgroundWork(nowNs);
    }

    private void entry(final String name, final Runnable callback) {
        try {
            callback.run();
        } catch (final AgentTerminationException end) {
            throw end;
        } catch (final Throwable error) {
            thrown = error;
            raised = name + " raises " + String.valueOf(error).lines().findFirst().orElse("");
            throw error;
        } finally {
            position = cluster.logPosition();
        }
    }
}
