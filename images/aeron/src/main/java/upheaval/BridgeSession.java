package upheaval;

import io.aeron.Aeron;
import io.aeron.Publication;
import io.aeron.cluster.client.AeronCluster;
import java.io.IOException;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import org.agrona.CloseHelper;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/** One connection to the bridge, which is one {@link Client}. */
final class BridgeSession implements Client.Listener {
    private static final String INGRESS_CHANNEL = "aeron:udp?term-length=2m";
    private static final int FIRST_EGRESS_STREAM_ID = 102;
    private static final long MESSAGE_TIMEOUT_NS = TimeUnit.SECONDS.toNanos(5);
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
    private final Client.Factory clients;
    private Client client;
    private long offeringSinceNs;
    private boolean isOffering;
    private boolean isAsked;
    private boolean isClosed;
    /** How many messages the client has offered that are done with. */
    private long offered;

    /** Sessions with the same egress have streams of their own, by their numbers. */
    BridgeSession(
        final Aeron aeron,
        final String egress,
        final int number,
        final SocketChannel socket,
        final Client.Factory clients) {
        this.aeron = aeron;
        this.clients = clients;
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
            client = clients.connect(context(ingressEndpoints), this);
            if (client == null) {
                bye("there is no client: connect returned null");
            }
        } catch (final Throwable error) {
            endBy(error);
        }
    }

    private AeronCluster.Context context(final String ingressEndpoints) {
        return new AeronCluster.Context()
            .aeron(aeron)
            .ownsAeronClient(false)
            .ingressChannel(INGRESS_CHANNEL)
            .ingressEndpoints(ingressEndpoints)
            .egressChannel(egressChannel)
            .egressStreamId(egressStreamId)
            .messageTimeoutNs(MESSAGE_TIMEOUT_NS)
            .errorHandler(error -> onError(Errors.text(error)));
    }

    private boolean offer(final byte[] frame) {
        final long result;
        try {
            if (client != null && !client.isConnected()) {
                return false;
            }
            result = client == null ? Publication.CLOSED : offerTo(client, frame);
        } catch (final Throwable error) {
            // The cluster may have it, so it is not given back.
            endBy(error);
            isOffering = false;
            offered++;
            return true;
        }
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

    private long offerTo(final Client connected, final byte[] frame) {
        try {
            return connected.offer(new UnsafeBuffer(frame), 1, frame.length - 1);
        } catch (final IllegalArgumentException tooLong) {
            onError(Objects.requireNonNullElse(tooLong.getMessage(), tooLong.toString()));
            return Publication.CLOSED;
        }
    }

    // --- what the cluster says ---

    private int poll() {
        if (isClosed || frames.waiting() > MAX_WAITING) {
            return 0;
        }
        try {
            return client == null ? 0 : client.poll();
        } catch (final Throwable error) {
            endBy(error);
            return 1;
        }
    }

    @Override
    public void onLeader(final long leadershipTermId, final int leaderMemberId, final long clusterSessionId) {
        frames.begin('L', 2 * Long.BYTES + Integer.BYTES)
            .putLong(leadershipTermId).putInt(leaderMemberId).putLong(clusterSessionId);
    }

    @Override
    public void onMessage(final DirectBuffer buffer, final int offset, final int length) {
        buffer.getBytes(offset, frames.begin('R', length), length);
    }

    @Override
    public void onError(final String text) {
        frames.text('E', String.valueOf(text));
    }

    /** What the client throws ends its session alone, such as the error of a missing class; one of the machine ends all. */
    private void endBy(final Throwable error) {
        rethrowFatal(error);
        leave();
        bye(Errors.text(error));
    }

    private static void rethrowFatal(final Throwable error) {
        if (error instanceof VirtualMachineError fatal && !(error instanceof StackOverflowError)) {
            throw fatal;
        }
    }

    private void bye(final String why) {
        frames.text('D', why);
    }

    private void leave() {
        final var leaving = client;
        client = null;
        try {
            CloseHelper.quietClose(leaving);
        } catch (final Throwable error) {
            rethrowFatal(error);
        }
    }
}
