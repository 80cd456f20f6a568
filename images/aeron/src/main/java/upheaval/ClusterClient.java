package upheaval;

import io.aeron.cluster.client.AeronCluster;
import io.aeron.cluster.client.EgressListener;
import io.aeron.cluster.codecs.EventCode;
import io.aeron.logbuffer.Header;
import java.util.concurrent.TimeUnit;
import org.agrona.CloseHelper;
import org.agrona.DirectBuffer;

/** An {@link AeronCluster} that sends what it is given, byte for byte. */
final class ClusterClient implements Client, EgressListener {
    private static final long KEEP_ALIVE_INTERVAL_NS = TimeUnit.MILLISECONDS.toNanos(500);

    private final Listener listener;
    private AeronCluster.AsyncConnect connecting;
    private AeronCluster cluster;
    private long keepAliveNs;

    ClusterClient(final AeronCluster.Context context, final Listener listener) {
        this.listener = listener;
        connecting = AeronCluster.asyncConnect(context.egressListener(this));
    }

    @Override
    public boolean isConnected() {
        return cluster != null;
    }

    @Override
    public int poll() {
        return cluster == null ? pollConnect() : pollCluster();
    }

    private int pollConnect() {
        cluster = connecting.poll();
        if (cluster == null) {
            return 0;
        }
        connecting = null;
        listener.onLeader(cluster.leadershipTermId(), cluster.leaderMemberId(), cluster.clusterSessionId());
        return 1;
    }

    private int pollCluster() {
        final int work = cluster.pollEgress();
        final long now = System.nanoTime();
        if (now - keepAliveNs >= KEEP_ALIVE_INTERVAL_NS) {
            keepAliveNs = now;
            cluster.sendKeepAlive();
        }
        if (cluster.isClosed()) {
            throw new Over("closed by the cluster");
        }
        return work;
    }

    @Override
    public long offer(final DirectBuffer buffer, final int offset, final int length) {
        return cluster.offer(buffer, offset, length);
    }

    @Override
    public void close() {
        CloseHelper.quietClose(connecting);
        CloseHelper.quietClose(cluster);
    }

    @Override
    public void onMessage(
        final long clusterSessionId,
        final long timestamp,
        final DirectBuffer buffer,
        final int offset,
        final int length,
        final Header header) {
        listener.onMessage(buffer, offset, length);
    }

    @Override
    public void onSessionEvent(
        final long correlationId,
        final long clusterSessionId,
        final long leadershipTermId,
        final int leaderMemberId,
        final EventCode code,
        final String detail) {
        if (code != EventCode.OK) {
            listener.onError(code + " " + detail);
        }
    }

    @Override
    public void onNewLeader(
        final long clusterSessionId,
        final long leadershipTermId,
        final int leaderMemberId,
        final String ingressEndpoints) {
        listener.onLeader(leadershipTermId, leaderMemberId, clusterSessionId);
    }
}
