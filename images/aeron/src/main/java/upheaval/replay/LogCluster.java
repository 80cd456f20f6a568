package upheaval.replay;

import io.aeron.Aeron;
import io.aeron.DirectBufferVector;
import io.aeron.cluster.client.ClusterException;
import io.aeron.cluster.service.ClientSession;
import io.aeron.cluster.service.Cluster;
import io.aeron.cluster.service.ClusteredServiceContainer;
import io.aeron.logbuffer.BufferClaim;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.IdleStrategy;

/**
 * What a service learns of its cluster from a log alone: time, position, sessions and term of the entry that it reads.
 *
 * <p>Timers and messages for the log are taken and become effects; whether they come back, the log says. As in Aeron, they
 * are refused in a lifecycle callback.
 */
final class LogCluster implements Cluster {
    private final List<LogSession> sessions = new ArrayList<>();
    private final Collection<ClientSession> unmodifiable = Collections.unmodifiableCollection(sessions);
    private final IdleStrategy idleStrategy = new BackoffIdleStrategy(10, 5, 1_000, TimeUnit.MILLISECONDS.toNanos(1));
    private final ClusteredServiceContainer.Context context;
    private final Effects effects;
    private final int memberId;

    Role role = Role.FOLLOWER;
    long logPosition;
    long time;
    TimeUnit timeUnit = TimeUnit.MILLISECONDS;
    /** The name of the lifecycle callback that runs, null of any other. */
    String lifecycle;

    LogCluster(final ClusteredServiceContainer.Context context, final Effects effects, final int memberId) {
        this.context = context;
        this.effects = effects;
        this.memberId = memberId;
    }

    void begin(final Beginning beginning) {
        logPosition = beginning.position();
        time = beginning.time();
        timeUnit = beginning.timeUnit();
        beginning.sessions().forEach(session -> sessions.add(session.of(effects)));
    }

    Beginning beginning(final int entries, final List<byte[]> snapshot) {
        return new Beginning(entries, snapshot, logPosition, time, timeUnit, List.copyOf(sessions));
    }

    void opened(final LogSession session) {
        sessions.add(session);
    }

    /** Null where none is open with that id. */
    LogSession closed(final long id) {
        final LogSession session = (LogSession)getClientSession(id);
        sessions.remove(session);
        return session;
    }

    @Override
    public int memberId() {
        return memberId;
    }

    @Override
    public Role role() {
        return role;
    }

    @Override
    public long logPosition() {
        return logPosition;
    }

    @Override
    public Aeron aeron() {
        return context.aeron();
    }

    @Override
    public ClusteredServiceContainer.Context context() {
        return context;
    }

    @Override
    public ClientSession getClientSession(final long clusterSessionId) {
        return sessions.stream().filter(session -> session.id() == clusterSessionId).findFirst().orElse(null);
    }

    @Override
    public Collection<ClientSession> clientSessions() {
        return unmodifiable;
    }

    @Override
    public void forEachClientSession(final Consumer<? super ClientSession> action) {
        sessions.forEach(action);
    }

    @Override
    public boolean closeClientSession(final long clusterSessionId) {
        refuseInLifecycle();
        final ClientSession session = getClientSession(clusterSessionId);
        if (session == null) {
            throw new ClusterException("unknown clusterSessionId: " + clusterSessionId);
        }
        session.close();
        return true;
    }

    @Override
    public long time() {
        return time;
    }

    @Override
    public TimeUnit timeUnit() {
        return timeUnit;
    }

    @Override
    public boolean scheduleTimer(final long correlationId, final long deadline) {
        refuseInLifecycle();
        effects.timer(correlationId, deadline);
        return true;
    }

    @Override
    public boolean cancelTimer(final long correlationId) {
        refuseInLifecycle();
        effects.cancelled(correlationId);
        return true;
    }

    @Override
    public long offer(final DirectBuffer buffer, final int offset, final int length) {
        refuseInLifecycle();
        effects.offer(Effects.bytes(buffer, offset, length));
        return Math.max(length, 1);
    }

    @Override
    public long offer(final DirectBufferVector[] vectors) {
        refuseInLifecycle();
        effects.offer(Effects.bytes(vectors));
        return 1;
    }

    @Override
    public long tryClaim(final int length, final BufferClaim bufferClaim) {
        refuseInLifecycle();
        return effects.claimOffer(length, bufferClaim);
    }

    @Override
    public IdleStrategy idleStrategy() {
        return idleStrategy;
    }

    private void refuseInLifecycle() {
        if (lifecycle != null) {
            throw new ClusterException("sending messages or scheduling timers is not allowed from " + lifecycle);
        }
    }
}
