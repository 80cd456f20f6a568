package upheaval;

import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.cluster.codecs.CloseReason;
import io.aeron.cluster.service.ClientSession;
import io.aeron.cluster.service.Cluster;
import io.aeron.cluster.service.ClusteredService;
import io.aeron.logbuffer.Header;
import java.util.concurrent.TimeUnit;
import java.util.function.IntSupplier;
import org.agrona.DirectBuffer;

/** Hands every callback to another service: one for an entry of the log by {@link #entry}, any other by {@link #local}. */
public abstract class DelegatingService implements ClusteredService {
    private final ClusteredService service;
    private Cluster cluster;

    protected DelegatingService(final ClusteredService service) {
        this.service = service;
    }

    /** Runs a callback for an entry of the log, and throws what it throws. */
    protected abstract void entry(String name, Runnable callback);

    /** Runs a callback that no entry causes, and throws what it throws. Returns how much the callback did. */
    protected int local(final String name, final IntSupplier callback) {
        return callback.getAsInt();
    }

    /** To which every callback is handed. */
    final ClusteredService service() {
        return service;
    }

    /** Null before the first callback. */
    protected final Cluster cluster() {
        return cluster;
    }

    @Override
    public void onStart(final Cluster cluster, final Image snapshotImage) {
        this.cluster = cluster;
        local("onStart", () -> service.onStart(cluster, snapshotImage));
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
        entry("onSessionMessage", () -> service.onSessionMessage(session, timestamp, buffer, offset, length, header));
    }

    @Override
    public void onTimerEvent(final long correlationId, final long timestamp) {
        entry("onTimerEvent", () -> service.onTimerEvent(correlationId, timestamp));
    }

    @Override
    public void onTakeSnapshot(final ExclusivePublication snapshotPublication) {
        local("onTakeSnapshot", () -> service.onTakeSnapshot(snapshotPublication));
    }

    @Override
    public void onRoleChange(final Cluster.Role newRole) {
        local("onRoleChange", () -> service.onRoleChange(newRole));
    }

    @Override
    public void onTerminate(final Cluster cluster) {
        local("onTerminate", () -> service.onTerminate(cluster));
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
        return local("doBackgroundWork", () -> service.doBackgroundWork(nowNs));
    }

    private void local(final String name, final Runnable callback) {
        local(name, () -> {
            callback.run();
            return 0;
        });
    }
}
