package upheaval;

import io.aeron.cluster.client.AeronCluster;
import org.agrona.DirectBuffer;

/**
 * A client of a cluster, as a connection to a {@link Bridge} uses it: what a test sends goes through it to the cluster, and
 * what the cluster answers comes back. {@link ClusterClient} is the usual one.
 */
public interface Client extends AutoCloseable {
    /**
     * Go on with connecting, take what the cluster sent, keep the session alive. It is called again and again, between
     * other clients, so it never waits.
     *
     * @return how much was done
     * @throws Over when the cluster has ended the session; any other exception ends it, too
     */
    int poll();

    /** Whether the cluster has let it in. */
    boolean isConnected();

    /**
     * Send one request, of which the cluster's log then has the same bytes.
     *
     * @return as {@link io.aeron.Publication#offer(DirectBuffer)}: what was back-pressured or found no leader is offered again
     *     for a second
     * @throws IllegalArgumentException for a request that cannot be sent, and was not; any other exception ends the
     *     session, and leaves the outcome of the request unknown
     */
    long offer(DirectBuffer buffer, int offset, int length);

    /** End the session. */
    @Override
    void close();

    /** What a client tells its connection. */
    interface Listener {
        /** It has been let in, or follows another leader. */
        void onLeader(long leadershipTermId, int leaderMemberId, long clusterSessionId);

        /** The cluster sent this. */
        void onMessage(DirectBuffer buffer, int offset, int length);

        /** Something went wrong that does not end the session. */
        void onError(String text);
    }

    /** The session is over, and why. */
    final class Over extends RuntimeException {
        private static final long serialVersionUID = 1;

        public Over(final String why) {
            super(why);
        }

        @Override
        public String toString() {
            return getMessage();
        }
    }

    /** Makes the client of each connection. */
    @FunctionalInterface
    interface Factory {
        /**
         * @param context with the Aeron client, ingress and egress to use; the egress listener, and whatever else a client
         *     wants otherwise, is set by it
         * @throws RuntimeException when there is no such client, with the reason
         */
        Client connect(AeronCluster.Context context, Listener listener);
    }
}
