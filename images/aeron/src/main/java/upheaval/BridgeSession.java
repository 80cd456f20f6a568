package upheaval;

import io.aeron.Aeron;
import io.aeron.Publication;
import io.aeron.cluster.client.AeronCluster;
import io.aeron.cluster.client.EgressListener;
import io.aeron.cluster.codecs.EventCode;
import io.aeron.logbuffer.Header;
import java.io.IOException;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.agrona.CloseHelper;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/** One connection to the bridge, which is one session of an {@link AeronCluster} client. */
final class BridgeSession implements EgressListener {
    private static final String INGRESS_CHANNEL = "aeron:udp?term-length=2m";
    private static final int FIRST_EGRESS_STREAM_ID = 102;
    private static final long MESSAGE_TIMEOUT_NS = TimeUnit.SECONDS.toNanos(5);
    private static final long KEEP_ALIVE_INTERVAL_NS = TimeUnit.MILLISECONDS.toNanos(500);
    /** So long a message waits for room or for a leader; then it is given back. */
    private static final long OFFER_PATIENCE_NS = TimeUnit.SECONDS.toNanos(1);
    /** A connection that takes no answers gets no more until it does. */
    private static final int MAX_WAITING = 8 * 1024 * 1024;
    private static final int FRAMES_A_CYCLE = 64;

    private final Aeron aeron;
    private final String egressChannel;
    private final int egressStreamId;
    private final SocketChannel socket;
    private final Frames frames;
    private AeronCluster.AsyncConnect connecting;
    private AeronCluster cluster;
    private long keepAliveNs;
    private long offeringSinceNs;
    private boolean isOffering;
    private boolean isAsked;
    private boolean isClosed;
    /** How many messages the client has offered that are done with. */
    private long offered;

    /** Sessions with the same egress have streams of their own, by their numbers. */
    BridgeSession(final Aeron aeron, final String egress, final int number, final SocketChannel socket) {
        this.aeron = aeron;
        egressChannel = "aeron:udp?endpoint=" + (egress.contains(":") ? egress : egress + ":0");
        egressStreamId = FIRST_EGRESS_STREAM_ID + number;
        this.socket = socket;
        frames = new Frames(socket);
    }

    /** Whether the connection has ended. */
    boolean isClosed() {
        return isClosed;
    }

    /** Everything that can be done now; gives how much was. */
    int doWork() {
        try {
            return receive() + poll() + frames.send();
        } catch (final IOException gone) {
            close();
            return 1;
        }
    }

    /** End the session with the cluster, and the connection. */
    void close() {
        isClosed = true;
        leave();
        CloseHelper.quietClose(socket);
    }

    // --- what the client says ---

    private int receive() throws IOException {
        int work = frames.receive();
        if (work < 0) {
            close();
            return 1;
        }
        for (int count = 0; count < FRAMES_A_CYCLE && !isClosed; count++) {
            final byte[] frame = frames.peek();
            if (frame == null || !act(frame)) {
                break;
            }
            frames.take();
            work++;
        }
        return work;
    }

    /** Whether it is done, and need not be tried again. */
    private boolean act(final byte[] frame) throws IOException {
        switch ((char)frame[0]) {
            case 'C' -> connect(new String(frame, 1, frame.length - 1, StandardCharsets.UTF_8));
            case 'O' -> {
                return offer(frame);
            }
            case 'X' -> {
                leave();
                bye("closed by the client");
            }
            default -> throw new IOException("unknown kind " + frame[0]);
        }
        return true;
    }

    private void connect(final String ingressEndpoints) throws IOException {
        if (isAsked) {
            throw new IOException("duplicate connect");
        }
        isAsked = true;
        try {
            connecting = asyncConnect(ingressEndpoints);
        } catch (final RuntimeException error) {
            bye(Errors.text(error));
        }
    }

    private AeronCluster.AsyncConnect asyncConnect(final String ingressEndpoints) {
        return AeronCluster.asyncConnect(new AeronCluster.Context()
            .aeron(aeron)
            .ownsAeronClient(false)
            .ingressChannel(INGRESS_CHANNEL)
            .ingressEndpoints(ingressEndpoints)
            .egressChannel(egressChannel)
            .egressStreamId(egressStreamId)
            .egressListener(this)
            .messageTimeoutNs(MESSAGE_TIMEOUT_NS)
            .errorHandler(error -> frames.text('E', Errors.text(error))));
    }

    private boolean offer(final byte[] frame) {
        if (connecting != null) {
            return false;
        }
        final long result = cluster == null ? Publication.CLOSED : offerTo(cluster, frame);
        final long now = System.nanoTime();
        if (result < 0 && result != Publication.CLOSED && result != Publication.MAX_POSITION_EXCEEDED) {
            offeringSinceNs = isOffering ? offeringSinceNs : now;
            isOffering = true;
            if (now - offeringSinceNs < OFFER_PATIENCE_NS) {
                return false;
            }
        }
        isOffering = false;
        offered++;
        if (result < 0) {
            frames.begin('N', Long.BYTES).putLong(offered);
        }
        return true;
    }

    private long offerTo(final AeronCluster leader, final byte[] frame) {
        try {
            return leader.offer(new UnsafeBuffer(frame), 1, frame.length - 1);
        } catch (final IllegalArgumentException tooLong) {
            frames.text('E', tooLong.getMessage());
            return Publication.CLOSED;
        }
    }

    // --- what the cluster says ---

    private int poll() {
        if (isClosed || frames.waiting() > MAX_WAITING) {
            return 0;
        }
        try {
            return connecting != null ? pollConnect() : cluster != null ? pollCluster() : 0;
        } catch (final RuntimeException error) {
            leave();
            bye(Errors.text(error));
            return 1;
        }
    }

    private int pollConnect() {
        cluster = connecting.poll();
        if (cluster == null) {
            return 0;
        }
        connecting = null;
        leader(cluster.leadershipTermId(), cluster.leaderMemberId(), cluster.clusterSessionId());
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
            leave();
            bye("closed by the cluster");
        }
        return work;
    }

    @Override
    public void onMessage(
        final long clusterSessionId,
        final long timestamp,
        final DirectBuffer buffer,
        final int offset,
        final int length,
        final Header header) {
        buffer.getBytes(offset, frames.begin('R', length), length);
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
            frames.text('E', code + " " + detail);
        }
    }

    @Override
    public void onNewLeader(
        final long clusterSessionId,
        final long leadershipTermId,
        final int leaderMemberId,
        final String ingressEndpoints) {
        leader(leadershipTermId, leaderMemberId, clusterSessionId);
    }

    private void leader(final long leadershipTermId, final int leaderMemberId, final long clusterSessionId) {
        frames.begin('L', 2 * Long.BYTES + Integer.BYTES)
            .putLong(leadershipTermId).putInt(leaderMemberId).putLong(clusterSessionId);
    }

    private void bye(final String why) {
        frames.text('D', why);
    }

    private void leave() {
        CloseHelper.quietClose(connecting);
        CloseHelper.quietClose(cluster);
        connecting = null;
        cluster = null;
    }
}
