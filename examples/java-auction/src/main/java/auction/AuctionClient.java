package auction;

import io.aeron.cluster.client.AeronCluster;
import io.aeron.cluster.client.EgressListener;
import io.aeron.logbuffer.Header;
import java.nio.ByteOrder;
import java.util.concurrent.TimeUnit;
import org.agrona.CloseHelper;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/** A client of the auction, as its users have it: bids in, answers out. One thread calls it. */
public final class AuctionClient implements EgressListener, AutoCloseable {
    private static final int BID_LENGTH = 24;
    private static final long KEEP_ALIVE_INTERVAL_NS = TimeUnit.MILLISECONDS.toNanos(500);

    /** What its user hears. */
    public interface Listener {
        /** The answer to a bid. */
        void onAnswer(long id, boolean leads, int leader, long price, int bids);

        /** The session is open, or there is another leader. */
        void onLeader(long leadershipTermId, int leaderMemberId, long clusterSessionId);
    }

    private final UnsafeBuffer out = new UnsafeBuffer(new byte[BID_LENGTH]);
    private final Listener listener;
    private AeronCluster.AsyncConnect connecting;
    private AeronCluster cluster;
    private long keepAliveNs;

    public AuctionClient(final AeronCluster.Context context, final Listener listener) {
        this.listener = listener;
        connecting = AeronCluster.asyncConnect(context.egressListener(this));
    }

    public boolean isConnected() {
        return cluster != null;
    }

    public boolean isClosed() {
        return cluster != null && cluster.isClosed();
    }

    /** The position of the bid in the ingress, or why it was not sent, as {@code Publication.offer} says it. */
    public long bid(final long id, final int lot, final int bidder, final long price) {
        out.putLong(0, id, ByteOrder.LITTLE_ENDIAN);
        out.putInt(8, lot, ByteOrder.LITTLE_ENDIAN);
        out.putInt(12, bidder, ByteOrder.LITTLE_ENDIAN);
        out.putLong(16, price, ByteOrder.LITTLE_ENDIAN);
        return cluster.offer(out, 0, BID_LENGTH);
    }

    /** Call it often: it connects, keeps the session alive, and hands on answers. */
    public int poll() {
        if (cluster == null) {
            cluster = connecting.poll();
            if (cluster == null) {
                return 0;
            }
            connecting = null;
            listener.onLeader(cluster.leadershipTermId(), cluster.leaderMemberId(), cluster.clusterSessionId());
        }
        final long now = System.nanoTime();
        if (now - keepAliveNs >= KEEP_ALIVE_INTERVAL_NS) {
            keepAliveNs = now;
            cluster.sendKeepAlive();
        }
        return cluster.pollEgress();
    }

    @Override
    public void onMessage(
        final long clusterSessionId,
        final long timestamp,
        final DirectBuffer buffer,
        final int offset,
        final int length,
        final Header header) {
        listener.onAnswer(
            buffer.getLong(offset, ByteOrder.LITTLE_ENDIAN),
            buffer.getInt(offset + 8, ByteOrder.LITTLE_ENDIAN) == 1,
            buffer.getInt(offset + 12, ByteOrder.LITTLE_ENDIAN),
            buffer.getLong(offset + 16, ByteOrder.LITTLE_ENDIAN),
            buffer.getInt(offset + 24, ByteOrder.LITTLE_ENDIAN));
    }

    @Override
    public void onNewLeader(
        final long clusterSessionId,
        final long leadershipTermId,
        final int leaderMemberId,
        final String ingressEndpoints) {
        listener.onLeader(leadershipTermId, leaderMemberId, clusterSessionId);
    }

    @Override
    public void close() {
        CloseHelper.closeAll(connecting, cluster);
    }
}
