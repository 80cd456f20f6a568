package upheaval.replay;

import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Collectors;
import upheaval.Trace;

/** The lines of one copy. */
final class Report {
    /** Of a longer state the report has the digest alone. */
    private static final int SHOWN_MAX = 4 << 20;

    private final PrintStream out;
    private final int copy;

    Report(final PrintStream out, final int copy) {
        this.out = out;
        this.copy = copy;
    }

    /** What came of the entry with that index; -1 before the first one. */
    void effects(final int index, final String members) {
        if (!members.isEmpty()) {
            line(",\"entry\":" + index + members);
        }
    }

    /** A snapshot after so many entries. */
    void snapshot(final int entries, final long position, final List<byte[]> messages, final boolean isAsked) {
        final long length = messages.stream().mapToLong(message -> message.length).sum();
        final String content = length > SHOWN_MAX ? "null" : messages.stream()
            .map(message -> "\"" + Effects.encode(message) + "\"").collect(Collectors.joining(",", "[", "]"));
        line(",\"entries\":" + entries + ",\"position\":" + position + ",\"asked\":" + isAsked
            + ",\"digest\":\"" + digest(messages) + "\",\"snapshot\":" + content);
    }

    /** A copy that cannot go on, and why; empty for one that read the whole log. */
    void ended(final String why) {
        line(",\"ended\":" + text(why));
    }

    private void line(final String members) {
        out.print("{\"copy\":" + copy + members + "}\n");
    }

    static String text(final String text) {
        final StringBuilder line = new StringBuilder();
        Trace.text(line, text);
        return line.toString();
    }

    /** SHA-256 of the messages, each with its length before it. */
    private static String digest(final List<byte[]> messages) {
        try {
            final MessageDigest whole = MessageDigest.getInstance("SHA-256");
            for (final byte[] message : messages) {
                whole.update(ByteBuffer.allocate(Long.BYTES).order(ByteOrder.LITTLE_ENDIAN).putLong(0, message.length));
                whole.update(message);
            }
            return HexFormat.of().formatHex(whole.digest());
        } catch (final NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }
}
