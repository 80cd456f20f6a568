package upheaval;

import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What a member is to be, from a file of properties. */
final class MemberConfig extends Settings {
    private static final int SEGMENT_LENGTH = 16 * 1024 * 1024;
    private static final String NAME_PREFIX = "name.";
    private static final String APP_VERSION = "app.version";
    /** 0.0.1, as in a context of Aeron's. */
    private static final int APP_VERSION_USUAL = 1;

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
    final int appVersion;
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

    /** Throws {@link IllegalArgumentException} for a file that makes no sense. */
    MemberConfig(final Path file) throws IOException {
        super(file);
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
        appVersion = propertyNames().contains(APP_VERSION) ? number(APP_VERSION) : APP_VERSION_USUAL;
        runId = text("run.id");
        leaderHeartbeatIntervalNs = duration("leader.heartbeat.interval.ms");
        leaderHeartbeatTimeoutNs = duration("leader.heartbeat.timeout.ms");
        electionTimeoutNs = duration("election.timeout.ms");
        electionStatusIntervalNs = duration("election.status.interval.ms");
        startupCanvassTimeoutNs = duration("startup.canvass.timeout.ms");
        terminationTimeoutNs = duration("termination.timeout.ms");
        sessionTimeoutNs = duration("session.timeout.ms");
        readNames();
        requireAllRead();
    }

    int segmentLength() {
        return Math.max(SEGMENT_LENGTH, logTermLength);
    }

    String logChannel() {
        return "aeron:udp?term-length=" + logTermLength;
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
        for (final String name : propertyNames()) {
            if (name.startsWith(NAME_PREFIX)) {
                names.put(name.substring(NAME_PREFIX.length()).replace('=', ':'), text(name));
            }
        }
    }
}
