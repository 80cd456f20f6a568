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
import org.agrona.concurrent.AgentTerminationException;

/**
 * Traces what one service is told of terms, of its role and of its end, and what its callbacks throw; that goes on to
 * the container then, which reports it and delivers the next entry.
 */
final class TracedService implements ClusteredService {
    private final ClusteredService service;
    private final Trace trace;
    private final int serviceId;
    private final RaisedExceptions raised;
    private Cluster cluster;
    private volatile Throwable told;
    private volatile boolean isTerminated;

    TracedService(final ClusteredService service, final Trace trace, final int serviceId) {
        this.service = service;
        this.trace = trace;
        this.serviceId = serviceId;
        raised = new RaisedExceptions(trace, serviceId, service.getClass());
    }

    @Override
    public void onStart(final Cluster cluster, final Image snapshotImage) {
        this.cluster = cluster;
        call("onStart", () -> service.onStart(cluster, snapshotImage));
    }

    @Override
    public void onSessionOpen(final ClientSession session, final long timestamp) {
        call("onSessionOpen", () -> service.onSessionOpen(session, timestamp));
    }

    @Override
    public void onSessionClose(final ClientSession session, final long timestamp, final CloseReason closeReason) {
        call("onSessionClose", () -> service.onSessionClose(session, timestamp, closeReason));
    }

    @Override
    public void onSessionMessage(
        final ClientSession session,
        final long timestamp,
        final DirectBuffer buffer,
        final int offset,
        final int length,
        final Header header) {
        call("onSessionMessage", () -> service.onSessionMessage(session, timestamp, buffer, offset, length, header));
    }

    @Override
    public void onTimerEvent(final long correlationId, final long timestamp) {
        call("onTimerEvent", () -> service.onTimerEvent(correlationId, timestamp));
    }

    @Override
    public void onTakeSnapshot(final ExclusivePublication snapshotPublication) {
        call("onTakeSnapshot", () -> service.onTakeSnapshot(snapshotPublication));
    }

    @Override
    public void onRoleChange(final Cluster.Role newRole) {
        trace.event("service-role", "service_id", serviceId, "role", newRole.name());
        call("onRoleChange", () -> service.onRoleChange(newRole));
    }

    @Override
    public void onTerminate(final Cluster cluster) {
        isTerminated = true;
        trace.event("service-terminate", "service_id", serviceId, "log_position", cluster.logPosition());
        call("onTerminate", () -> service.onTerminate(cluster));
    }

    /** The log tells all services; one of them tells the trace. */
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
        if (serviceId == 0) {
            trace.event("leadership_term",
                "leadership_term_id", leadershipTermId,
                "leader_member_id", leaderMemberId,
                "log_position", logPosition,
                "term_base_log_position", termBaseLogPosition,
                "source", "log");
        }
        call("onNewLeadershipTermEvent", () -> service.onNewLeadershipTermEvent(leadershipTermId, logPosition,
            timestamp, termBaseLogPosition, leaderMemberId, logSessionId, timeUnit, appVersion));
    }

    @Override
    public int doBackgroundWork(final long nowNs) {
        return call("doBackgroundWork", () -> service.doBackgroundWork(nowNs));
    }

    /** Whether that came out of the service last, or what caused it. */
    boolean hasTold(final Throwable error) {
        return error != null && (error == told || hasTold(error.getCause()));
    }

    /** Whether its module has ended it, at a position of the log. */
    boolean isTerminated() {
        return isTerminated;
    }

    private void call(final String name, final Runnable callback) {
        call(name, () -> {
            callback.run();
            return 0;
        });
    }

    private int call(final String name, final IntSupplier callback) {
        try {
            return callback.getAsInt();
        } catch (final AgentTerminationException end) {
            throw end;
        } catch (final Throwable error) {
            // A checked one that was thrown as if it were none is no other.
            raised.tell(name, cluster.logPosition(), error);
            told = error;
            throw error;
        }
    }
}
