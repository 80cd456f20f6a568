package upheaval;

import io.aeron.cluster.service.Cluster;
import io.aeron.cluster.service.ClusteredService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.IntSupplier;
import org.agrona.concurrent.AgentTerminationException;

/**
 * Traces what one service hears of terms, of its role and of its end, and what its callbacks throw; that goes on to
 * the container then, which reports it and delivers the next entry.
 */
final class TracedService extends DelegatingService {
    private final Trace trace;
    private final int serviceId;
    private final RaisedExceptions raised;
    private final Consumer<Cluster> atTermination;
    private volatile Throwable latest;
    private volatile boolean isTerminated;

    TracedService(final ClusteredService service, final Trace trace, final int serviceId) {
        this(service, trace, serviceId, cluster -> {
        });
    }

    /** {@code atTermination} looks at the module as it ends the service: before the service hears of that, and after. */
    TracedService(
        final ClusteredService service, final Trace trace, final int serviceId, final Consumer<Cluster> atTermination) {
        super(service);
        this.atTermination = atTermination;
        this.trace = trace;
        this.serviceId = serviceId;
        raised = new RaisedExceptions(trace, serviceId, service.getClass());
    }

    @Override
    public void onRoleChange(final Cluster.Role newRole) {
        trace.event("service-role", "service_id", serviceId, "role", newRole.name());
        super.onRoleChange(newRole);
    }

    @Override
    public void onTerminate(final Cluster cluster) {
        // A module that ends by an error ends its services at position 0, where no log of a leader ends.
        isTerminated = cluster.logPosition() > 0;
        trace.event("service-terminate", "service_id", serviceId, "log_position", cluster.logPosition());
        atTermination.accept(cluster);
        try {
            super.onTerminate(cluster);
        } finally {
            // The module may order the end first, and change its state then.
            atTermination.accept(cluster);
        }
    }

    /** All services hear it from the log; the first one traces it. */
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
        super.onNewLeadershipTermEvent(leadershipTermId, logPosition,
            timestamp, termBaseLogPosition, leaderMemberId, logSessionId, timeUnit, appVersion);
    }

    /** Whether that came out of the service last, or what caused it. */
    boolean hasRaised(final Throwable error) {
        return error != null && (error == latest || hasRaised(error.getCause()));
    }

    /** Whether its module has ended it, or its container was closed, at a position of the log. */
    boolean isTerminated() {
        return isTerminated;
    }

    @Override
    protected void entry(final String name, final Runnable callback) {
        local(name, () -> {
            callback.run();
            return 0;
        });
    }

    @Override
    protected int local(final String name, final IntSupplier callback) {
        try {
            return callback.getAsInt();
        } catch (final AgentTerminationException end) {
            throw end;
        } catch (final Throwable error) {
            // A checked one that was thrown as if it were none is no other.
            raised.tell(name, cluster().logPosition(), error);
            latest = error;
            throw error;
        }
    }
}
