package upheaval.replay;

import io.aeron.cluster.service.ClientSession;
import io.aeron.cluster.service.ClusteredService;
import io.aeron.logbuffer.Header;
import java.util.concurrent.atomic.AtomicLong;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.AgentTerminationException;
import upheaval.DelegatingService;

/** Counts what a service has handled of the log, and notes what its callbacks throw; the container hears that, too. */
final class CountedService extends DelegatingService {
    private final AtomicLong requests = new AtomicLong();
    private volatile long position;
    private volatile String raised;
    private volatile Throwable thrown;

    CountedService(final ClusteredService service) {
        super(service);
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
    public void onSessionMessage(
        final ClientSession session,
        final long timestamp,
        final DirectBuffer buffer,
        final int offset,
        final int length,
        final Header header) {
        try {
            super.onSessionMessage(session, timestamp, buffer, offset, length, header);
        } finally {
            if (session != null) {
                requests.incrementAndGet();
            }
        }
    }

    @Override
    protected void entry(final String name, final Runnable callback) {
        try {
            callback.run();
        } catch (final AgentTerminationException end) {
            throw end;
        } catch (final Throwable error) {
            thrown = error;
            raised = name + " raises " + String.valueOf(error).lines().findFirst().orElse("");
            throw error;
        } finally {
            position = cluster().logPosition();
        }
    }
}
