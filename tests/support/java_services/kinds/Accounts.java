package kinds;

import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.cluster.codecs.CloseReason;
import io.aeron.cluster.service.ClientSession;
import io.aeron.cluster.service.Cluster;
import io.aeron.cluster.service.ClusteredService;
import io.aeron.logbuffer.Header;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * A right service with answers, timers and messages of its own; `accounts_twin.py` is its twin. Others change one thing in it.
 *
 * <pre>
 * add NAME N        adds at once
 * later NAME N MS   adds when a timer of so many milliseconds fires, and tells the log
 * </pre>
 *
 * Each is answered by the name, its balance, and how many requests there were.
 */
public class Accounts implements ClusteredService {
    protected final TreeMap<String, Long> balances = new TreeMap<>();
    protected final TreeMap<Long, String> holds = new TreeMap<>();
    protected Cluster cluster;
    protected long count;
    protected long timers;
    protected long logged;
    private boolean isLoaded;

    @Override
    public void onStart(final Cluster cluster, final Image image) {
        this.cluster = cluster;
        if (image != null) {
            load(image);
        }
    }

    protected void load(final Image image) {
        while (!isLoaded) {
            cluster.idleStrategy().idle(image.poll(this::onSnapshot, 10));
        }
    }

    protected final void onSnapshot(
        final DirectBuffer buffer, final int offset, final int length, final Header header) {
        restore(text(buffer, offset, length).split(" "));
    }

    protected void restore(final String[] words) {
        switch (words[0]) {
            case "count" -> count = Long.parseLong(words[1]);
            case "timers" -> timers = Long.parseLong(words[1]);
            case "logged" -> logged = Long.parseLong(words[1]);
            case "balance" -> balances.put(words[1], Long.parseLong(words[2]));
            case "hold" -> holds.put(Long.parseLong(words[1]), words[2] + " " + words[3]);
            default -> isLoaded = true;
        }
    }

    @Override
    public void onSessionMessage(
        final ClientSession session,
        final long timestamp,
        final DirectBuffer buffer,
        final int offset,
        final int length,
        final Header header) {
        if (session == null) {
            logged++;
            return;
        }
        count++;
        final String[] words = text(buffer, offset, length).split(" ");
        if (words[0].equals("later")) {
            holds.put(++timers, words[1] + " " + words[2]);
            schedule(timers, timestamp + Long.parseLong(words[3]));
        } else {
            add(words[1], Long.parseLong(words[2]));
        }
        respond(session, answer(words[1]));
    }

    protected void add(final String name, final long amount) {
        balances.merge(name, amount, Long::sum);
    }

    protected String answer(final String name) {
        return name + " " + balances.getOrDefault(name, 0L) + " #" + count;
    }

    protected void respond(final ClientSession session, final String text) {
        final byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        session.offer(new UnsafeBuffer(bytes), 0, bytes.length);
    }

    protected void schedule(final long id, final long deadline) {
        cluster.scheduleTimer(id, deadline);
    }

    protected void tellLog(final String text) {
        final byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        cluster.offer(new UnsafeBuffer(bytes), 0, bytes.length);
    }

    @Override
    public void onTimerEvent(final long correlationId, final long timestamp) {
        final String hold = holds.remove(correlationId);
        if (hold != null) {
            final String[] words = hold.split(" ");
            add(words[0], Long.parseLong(words[1]));
            tellLog("fired " + correlationId);
        }
    }

    @Override
    public void onTakeSnapshot(final ExclusivePublication publication) {
        for (final String line : lines()) {
            write(publication, line);
        }
    }

    protected List<String> lines() {
        final List<String> lines = new ArrayList<>();
        lines.add("count " + count);
        lines.add("timers " + timers);
        lines.add("logged " + logged);
        balances.forEach((name, balance) -> lines.add("balance " + name + " " + balance));
        holds.forEach((id, hold) -> lines.add("hold " + id + " " + hold));
        lines.add("end");
        return lines;
    }

    private void write(final ExclusivePublication publication, final String line) {
        final byte[] bytes = line.getBytes(StandardCharsets.UTF_8);
        final UnsafeBuffer buffer = new UnsafeBuffer(bytes);
        while (publication.offer(buffer, 0, bytes.length) < 0) {
            cluster.idleStrategy().idle();
        }
    }

    private static String text(final DirectBuffer buffer, final int offset, final int length) {
        return buffer.getStringWithoutLengthUtf8(offset, length);
    }

    @Override
    public void onSessionOpen(final ClientSession session, final long timestamp) {
    }

    @Override
    public void onSessionClose(final ClientSession session, final long timestamp, final CloseReason closeReason) {
    }

    @Override
    public void onRoleChange(final Cluster.Role newRole) {
    }

    @Override
    public void onTerminate(final Cluster cluster) {
    }
}
