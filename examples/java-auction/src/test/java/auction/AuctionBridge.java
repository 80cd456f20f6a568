package auction;

import io.aeron.cluster.client.AeronCluster;
import java.nio.ByteOrder;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import upheaval.Bridge;
import upheaval.Client;

/** Puts the auction's own client between the tests in Python and the cluster: what they send, it bids. */
public final class AuctionBridge implements Client, AuctionClient.Listener {
    private final UnsafeBuffer answer = new UnsafeBuffer(new byte[28]);
    private final AuctionClient client;
    private final Client.Listener listener;

    public static void main(final String[] arguments) throws Exception {
        Bridge.run(arguments, AuctionBridge::new);
    }

    private AuctionBridge(final AeronCluster.Context context, final Client.Listener listener) {
        this.listener = listener;
        client = new AuctionClient(context, this);
    }

    @Override
    public int poll() {
        final int work = client.poll();
        if (client.isClosed()) {
            throw new Over("closed by the cluster");
        }
        return work;
    }

    @Override
    public boolean isConnected() {
        return client.isConnected();
    }

    @Override
    public long offer(final DirectBuffer bid, final int offset, final int length) {
        return client.bid(
            bid.getLong(offset, ByteOrder.LITTLE_ENDIAN),
            bid.getInt(offset + 8, ByteOrder.LITTLE_ENDIAN),
            bid.getInt(offset + 12, ByteOrder.LITTLE_ENDIAN),
            bid.getLong(offset + 16, ByteOrder.LITTLE_ENDIAN));
    }

    @Override
    public void onAnswer(final long id, final boolean leads, final int leader, final long price, final int bids) {
        answer.putLong(0, id, ByteOrder.LITTLE_ENDIAN);
        answer.putInt(8, leads ? 1 : 0, ByteOrder.LITTLE_ENDIAN);
        answer.putInt(12, leader, ByteOrder.LITTLE_ENDIAN);
        answer.putLong(16, price, ByteOrder.LITTLE_ENDIAN);
        answer.putInt(24, bids, ByteOrder.LITTLE_ENDIAN);
        listener.onMessage(answer, 0, answer.capacity());
    }

    @Override
    public void onLeader(final long leadershipTermId, final int leaderMemberId, final long clusterSessionId) {
        listener.onLeader(leadershipTermId, leaderMemberId, clusterSessionId);
    }

    @Override
    public void close() {
        client.close();
    }
}
