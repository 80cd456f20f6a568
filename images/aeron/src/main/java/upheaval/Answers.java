package upheaval;

import io.aeron.Publication;
import io.aeron.cluster.service.ClientSession;
import io.aeron.cluster.service.Cluster;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Sends the answers of one service to its clients. An answer that a client does not take within a bounded time is
 * dropped: the log must go on. A client that let that happen is not waited for again until it has taken one.
 */
final class Answers {
    private static final long PATIENCE_NS = TimeUnit.MILLISECONDS.toNanos(500);

    private final Cluster cluster;
    private final Set<Long> silent = new HashSet<>();

    Answers(final Cluster cluster) {
        this.cluster = cluster;
    }

    /** Whether answers are sent from here at all. */
    boolean areSent() {
        return cluster.role() == Cluster.Role.LEADER;
    }

    void send(final ClientSession session, final byte[] answer) {
        final UnsafeBuffer buffer = new UnsafeBuffer(answer);
        final long deadline = silent.contains(session.id()) ? 0 : PATIENCE_NS;
        final long begin = System.nanoTime();
        cluster.idleStrategy().reset();
        while (areSent()) {
            final long result = session.offer(buffer, 0, answer.length);
            if (result > 0) {
                silent.remove(session.id());
                return;
            }
            if (result == Publication.CLOSED || result == Publication.MAX_POSITION_EXCEEDED) {
                return;
            }
            if (System.nanoTime() - begin >= deadline) {
                silent.add(session.id());
                return;
            }
            cluster.idleStrategy().idle();
        }
    }

    void forget(final ClientSession session) {
        silent.remove(session.id());
    }
}
