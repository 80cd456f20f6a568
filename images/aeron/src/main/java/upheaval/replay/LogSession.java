package upheaval.replay;

import io.aeron.DirectBufferVector;
import io.aeron.cluster.service.ClientSession;
import io.aeron.logbuffer.BufferClaim;
import org.agrona.DirectBuffer;

/** A session as the log has it. Messages to it become effects, and are taken as a follower takes them. */
final class LogSession implements ClientSession {
    private final long id;
    private final int responseStreamId;
    private final String responseChannel;
    private final byte[] encodedPrincipal;
    private final Effects effects;
    private boolean isClosing;

    LogSession(
        final long id,
        final int responseStreamId,
        final String responseChannel,
        final byte[] encodedPrincipal,
        final Effects effects) {
        this.id = id;
        this.responseStreamId = responseStreamId;
        this.responseChannel = responseChannel;
        this.encodedPrincipal = encodedPrincipal;
        this.effects = effects;
    }

    /** The same one, of another copy. */
    LogSession of(final Effects others) {
        final LogSession session = new LogSession(id, responseStreamId, responseChannel, encodedPrincipal, others);
        session.isClosing = isClosing;
        return session;
    }

    @Override
    public long id() {
        return id;
    }

    @Override
    public int responseStreamId() {
        return responseStreamId;
    }

    @Override
    public String responseChannel() {
        return responseChannel;
    }

    @Override
    public byte[] encodedPrincipal() {
        return encodedPrincipal;
    }

    @Override
    public void close() {
        if (!isClosing) {
            isClosing = true;
            effects.closed(id);
        }
    }

    @Override
    public boolean isClosing() {
        return isClosing;
    }

    @Override
    public long offer(final DirectBuffer buffer, final int offset, final int length) {
        effects.egress(id, Effects.bytes(buffer, offset, length));
        return MOCKED_OFFER;
    }

    @Override
    public long offer(final DirectBufferVector[] vectors) {
        effects.egress(id, Effects.bytes(vectors));
        return MOCKED_OFFER;
    }

    @Override
    public long tryClaim(final int length, final BufferClaim bufferClaim) {
        effects.claimEgress(id, length, bufferClaim);
        return MOCKED_OFFER;
    }
}
