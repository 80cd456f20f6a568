package upheaval.replay;

import io.aeron.DirectBufferVector;
import io.aeron.cluster.client.AeronCluster;
import io.aeron.logbuffer.BufferClaim;
import io.aeron.protocol.DataHeaderFlyweight;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Objects;
import java.util.function.Supplier;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * What a service did in one callback, as the members of a JSON object: {@code egress} of (session, message),
 * {@code offers} of messages to the log, {@code timers} of (id, deadline), with null for one that it cancelled, {@code closed}
 * of ids of sessions, {@code raised} in words. Messages are Base64; what did not happen is left out.
 */
final class Effects {
    private static final int HEAD = DataHeaderFlyweight.HEADER_LENGTH + AeronCluster.SESSION_HEADER_LENGTH;

    private final List<Supplier<String>> egress = new ArrayList<>();
    private final List<Supplier<String>> offers = new ArrayList<>();
    private final List<String> timers = new ArrayList<>();
    private final List<String> closed = new ArrayList<>();
    private String raised;

    void egress(final long session, final byte[] message) {
        egress.add(() -> json(session, message));
    }

    void offer(final byte[] message) {
        offers.add(() -> json(message));
    }

    void timer(final long id, final long deadline) {
        timers.add("[" + id + "," + deadline + "]");
    }

    void cancelled(final long id) {
        timers.add("[" + id + ",null]");
    }

    void closed(final long session) {
        closed.add(Long.toString(session));
    }

    void raised(final String text) {
        raised = text;
    }

    /** A message to a session that the service writes after this call. */
    long claimEgress(final long session, final int length, final BufferClaim claim) {
        final UnsafeBuffer buffer = claimed(length, claim);
        egress.add(() -> isAborted(buffer) ? null : json(session, bytes(buffer, HEAD, length)));
        return buffer.capacity();
    }

    /** A message for the log that the service writes after this call. */
    long claimOffer(final int length, final BufferClaim claim) {
        final UnsafeBuffer buffer = claimed(length, claim);
        offers.add(() -> isAborted(buffer) ? null : json(bytes(buffer, HEAD, length)));
        return buffer.capacity();
    }

    private static UnsafeBuffer claimed(final int length, final BufferClaim claim) {
        final UnsafeBuffer buffer = new UnsafeBuffer(new byte[HEAD + length]);
        buffer.putShort(DataHeaderFlyweight.TYPE_FIELD_OFFSET, (short)DataHeaderFlyweight.HDR_TYPE_DATA);
        claim.wrap(buffer, 0, buffer.capacity());
        return buffer;
    }

    private static boolean isAborted(final UnsafeBuffer claimed) {
        return claimed.getShort(DataHeaderFlyweight.TYPE_FIELD_OFFSET) == DataHeaderFlyweight.HDR_TYPE_PAD;
    }

    static byte[] bytes(final DirectBuffer buffer, final int offset, final int length) {
        final byte[] message = new byte[length];
        buffer.getBytes(offset, message);
        return message;
    }

    /** Of a message in parts, of which the first one is the place of a header. */
    static byte[] bytes(final DirectBufferVector[] vectors) {
        int length = 0;
        for (int index = 1; index < vectors.length; index++) {
            length += vectors[index].length();
        }
        final byte[] message = new byte[length];
        int at = 0;
        for (int index = 1; index < vectors.length; index++) {
            vectors[index].buffer().getBytes(vectors[index].offset(), message, at, vectors[index].length());
            at += vectors[index].length();
        }
        return message;
    }

    /** The members with a comma before each, and forget them. */
    String take() {
        final StringBuilder members = new StringBuilder();
        append(members, "egress", written(egress));
        append(members, "offers", written(offers));
        append(members, "timers", timers);
        append(members, "closed", closed);
        if (raised != null) {
            members.append(",\"raised\":").append(Report.text(raised));
            raised = null;
        }
        return members.toString();
    }

    /** What was written by the end of the callback. */
    private static List<String> written(final List<Supplier<String>> messages) {
        final List<String> written = new ArrayList<>();
        messages.stream().map(Supplier::get).filter(Objects::nonNull).forEach(written::add);
        messages.clear();
        return written;
    }

    private static String json(final long session, final byte[] message) {
        return "[" + session + "," + json(message) + "]";
    }

    private static String json(final byte[] message) {
        return "\"" + encode(message) + "\"";
    }

    static String encode(final byte[] message) {
        return Base64.getEncoder().encodeToString(message);
    }

    private static void append(final StringBuilder members, final String name, final List<String> values) {
        if (!values.isEmpty()) {
            members.append(",\"").append(name).append("\":[").append(String.join(",", values)).append(']');
            values.clear();
        }
    }
}
