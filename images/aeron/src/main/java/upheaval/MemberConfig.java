package upheaval;

import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;

/** What a member is to be, from a file of properties. Says in one line what is missing, unknown or no number. */
final class MemberConfig {
    private static final String NAME_PREFIX = "name.";

    final int memberId;
    final String members;
    final Path folder;
    final String aeronDirectory;
    /** On which this member's archive takes requests. */
    final String archiveEndpoint;
    final String replicationEndpoint;
    final List<String> services;
    final int syncLevel;
    final int logTermLength;
    final int maxSessions;
    final String runId;
    final long leaderHeartbeatIntervalNs;
    final long leaderHeartbeatTimeoutNs;
    final long electionTimeoutNs;
    final long electionStatusIntervalNs;
    final long startupCanvassTimeoutNs;
    final long terminationTimeoutNs;
    final long sessionTimeoutNs;
    /** What to dial for an endpoint of another. */
    final Map<String, String> names = new HashMap<>();

    private final Properties properties;
    private final Set<String> unread;

    private MemberConfig(final Properties properties) {
        this.properties = properties;
        unread = new TreeSet<>(properties.stringPropertyNames());
        memberId = number("member.id");
        members = text("members");
        archiveEndpoint = archiveEndpoint(memberId, members);
        folder = Path.of(text("folder"));
        aeronDirectory = text("aeron.dir");
        replicationEndpoint = text("replication.endpoint");
        services = List.of(text("service").split(","));
        syncLevel = number("sync.level");
        logTermLength = number("log.term.length");
        maxSessions = number("max.sessions");
        runId = text("run.id");
        leaderHeartbeatIntervalNs = duration("leader.heartbeat.interval.ms");
        leaderHeartbeatTimeoutNs = duration("leader.heartbeat.timeout.ms");
        electionTimeoutNs = duration("election.timeout.ms");
        electionStatusIntervalNs = duration("election.status.interval.ms");
        startupCanvassTimeoutNs = duration("startup.canvass.timeout.ms");
        terminationTimeoutNs = duration("termination.timeout.ms");
        sessionTimeoutNs = duration("session.timeout.ms");
        readNames();
        if (!unread.isEmpty()) {
            throw new IllegalArgumentException("unknown property '" + unread.iterator().next() + "'");
        }
    }

    /** Throws {@link IllegalArgumentException} for a file that makes no sense. */
    static MemberConfig read(final Path file) throws IOException {
        final Properties properties = new Properties();
        try (Reader reader = Files.newBufferedReader(file)) {
            properties.load(reader);
        }
        return new MemberConfig(properties);
    }

    private static String archiveEndpoint(final int memberId, final String members) {
        for (final String member : members.split("\\|")) {
            if (member.startsWith(memberId + ",")) {
                return member.substring(member.lastIndexOf(',') + 1);
            }
        }
        throw new IllegalArgumentException("property 'members' has no member " + memberId);
    }

    private void readNames() {
        for (final String name : properties.stringPropertyNames()) {
            if (name.startsWith(NAME_PREFIX)) {
                names.put(name.substring(NAME_PREFIX.length()).replace('=', ':'), text(name));
            }
        }
    }

    private String text(final String name) {
        final String value = properties.getProperty(name);
        if (value == null) {
            throw new IllegalArgumentException("missing property '" + name + "'");
        }
        unread.remove(name);
        return value;
    }

    private int number(final String name) {
        final String value = text(name);
        try {
            return Integer.parseInt(value);
        } catch (final NumberFormatException notNumber) {
            throw new IllegalArgumentException("property '" + name + "': expected a number, got '" + value + "'");
        }
    }

    private long duration(final String name) {
        return TimeUnit.MILLISECONDS.toNanos(number(name));
    }
}
