package desk;

import io.aeron.security.Authenticator;
import io.aeron.security.SessionProxy;
import java.nio.charset.StandardCharsets;

/** Admits clients without credentials, as guests, and those with the desk's. */
final class DeskAuthenticator implements Authenticator {
    private static final String SECRET = System.getProperty("desk.secret", "");

    private String shown = "";

    @Override
    public void onConnectRequest(final long sessionId, final byte[] credentials, final long nowMs) {
        shown = new String(credentials, StandardCharsets.UTF_8);
    }

    @Override
    public void onConnectedSession(final SessionProxy session, final long nowMs) {
        if (shown.isEmpty()) {
            session.authenticate("guest".getBytes(StandardCharsets.UTF_8));
        } else if (shown.equals(SECRET)) {
            session.authenticate("desk".getBytes(StandardCharsets.UTF_8));
        } else {
            session.reject();
        }
    }

    @Override
    public void onChallengeResponse(final long sessionId, final byte[] credentials, final long nowMs) {
    }

    @Override
    public void onChallengedSession(final SessionProxy session, final long nowMs) {
        session.reject();
    }
}
