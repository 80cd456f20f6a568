package upheaval;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * Writes the trace of a member: one line of JSON an event, in the file before {@link #event} returns.
 *
 * <p>A line is one write to a file opened for appending, so it survives SIGKILL. A trace that cannot be written must not
 * end the member: the loss is counted, and said by the next line that gets through. Safe for use by several threads.
 */
public final class Trace implements AutoCloseable {
    private final FileChannel file;
    private final String origin;
    private int lostEvents;
    private boolean isTorn;

    /** Opens the file, which processes of one member may share. */
    public Trace(final Path path, final int memberId, final String component, final String runId) throws IOException {
        Files.createDirectories(path.getParent());
        file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.APPEND);
        final StringBuilder line = new StringBuilder();
        member(line, "member", memberId);
        member(line, "component", component);
        member(line, "pid", ProcessHandle.current().pid());
        if (!runId.isEmpty()) {
            member(line, "run", runId);
        }
        origin = line.toString();
    }

    /** Names and values of the fields in turn: texts, numbers, booleans or null. */
    public synchronized void event(final String event, final Object... fields) {
        final StringBuilder line = new StringBuilder(isTorn ? "\n" : "");
        line.append("{\"ts\":").append(System.nanoTime());
        line.append(",\"epoch_ms\":").append(System.currentTimeMillis());
        line.append(origin);
        member(line, "event", event);
        if (lostEvents > 0) {
            member(line, "lost_events_before", lostEvents);
        }
        for (int index = 0; index < fields.length; index += 2) {
            member(line, (String)fields[index], fields[index + 1]);
        }
        write(line.append("}\n").toString().getBytes(StandardCharsets.UTF_8));
    }

    private void write(final byte[] line) {
        // An interrupted thread that writes closes the file for all.
        final boolean isInterrupted = Thread.interrupted();
        try {
            isTorn = file.write(ByteBuffer.wrap(line)) < line.length;
            lostEvents = isTorn ? lostEvents + 1 : 0;
        } catch (final IOException full) {
            lostEvents++;
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    @Override
    public void close() throws IOException {
        file.close();
    }

    private static void member(final StringBuilder line, final String name, final Object value) {
        line.append(",\"").append(name).append("\":");
        if (value instanceof String text) {
            text(line, text);
        } else {
            line.append(value);
        }
    }

    /** Append a text as JSON has it. */
    public static void text(final StringBuilder line, final String text) {
        line.append('"');
        for (int index = 0; index < text.length(); index++) {
            final char each = text.charAt(index);
            if (each == '"' || each == '\\') {
                line.append('\\').append(each);
            } else if (each < ' ' || each > '~') {
                line.append(String.format("\\u%04x", (int)each));
            } else {
                line.append(each);
            }
        }
        line.append('"');
    }
}
