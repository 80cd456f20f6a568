package kinds;

import io.aeron.cluster.service.ClientSession;
import io.aeron.logbuffer.BufferClaim;
import java.nio.charset.StandardCharsets;

/** A right service that also tells every session what one has asked, and writes its answers into claimed buffers. */
public final class News extends Accounts {
    private final BufferClaim claim = new BufferClaim();

    @Override
    protected void respond(final ClientSession session, final String text) {
        final byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        if (session.tryClaim(bytes.length, claim) > 0) {
            claim.buffer().putBytes(claim.offset() + 32, bytes);
            claim.commit();
        }
        for (final ClientSession each : cluster.clientSessions()) {
            super.respond(each, "news of " + session.id() + ": " + text);
        }
    }
}
