package upheaval;

import java.util.LinkedHashMap;
import java.util.Map;

/** Aeron's system properties that make contexts, as their constructors read them, those of one member. */
final class AeronProperties {
    private AeronProperties() {
    }

    static Map<String, String> of(final MemberConfig config) {
        final String replication = "aeron:udp?endpoint=" + config.replicationEndpoint;
        final Map<String, String> properties = new LinkedHashMap<>();
        properties.put("aeron.dir", config.aeronDirectory);
        properties.put("aeron.dir.delete.on.start", "true");
        properties.put("aeron.dir.delete.on.shutdown", "false");
        properties.put("aeron.threading.mode", "SHARED");
        properties.put("aeron.print.configuration", "false");
        properties.put("aeron.archive.dir", config.folder.resolve("archive").toString());
        properties.put("aeron.archive.id", Integer.toString(config.memberId));
        properties.put("aeron.archive.threading.mode", "SHARED");
        properties.put("aeron.archive.control.channel", "aeron:udp?endpoint=" + config.archiveEndpoint);
        properties.put("aeron.archive.local.control.channel", MemberContexts.CONTROL_CHANNEL);
        properties.put("aeron.archive.replication.channel", replication);
        properties.put("aeron.archive.control.response.channel", replication);
        properties.put("aeron.archive.segment.file.length", Integer.toString(config.segmentLength()));
        properties.put("aeron.archive.file.sync.level", Integer.toString(config.syncLevel));
        properties.put("aeron.archive.catalog.file.sync.level", Integer.toString(config.syncLevel));
        properties.put("aeron.cluster.dir", config.folder.resolve("cluster").toString());
        properties.put("aeron.cluster.member.id", Integer.toString(config.memberId));
        properties.put("aeron.cluster.members", config.members);
        properties.put("aeron.cluster.service.count", Integer.toString(config.services.size()));
        properties.put("aeron.cluster.ingress.channel", "aeron:udp");
        properties.put("aeron.cluster.log.channel", config.logChannel());
        properties.put("aeron.cluster.snapshot.channel", MemberContexts.SNAPSHOT_CHANNEL);
        properties.put("aeron.cluster.replication.channel", replication);
        properties.put("aeron.cluster.file.sync.level", Integer.toString(config.syncLevel));
        properties.put("aeron.cluster.max.sessions", Integer.toString(config.maxSessions));
        properties.put("aeron.cluster.leader.heartbeat.interval", config.leaderHeartbeatIntervalNs + "ns");
        properties.put("aeron.cluster.leader.heartbeat.timeout", config.leaderHeartbeatTimeoutNs + "ns");
        properties.put("aeron.cluster.election.timeout", config.electionTimeoutNs + "ns");
        properties.put("aeron.cluster.election.status.interval", config.electionStatusIntervalNs + "ns");
        properties.put("aeron.cluster.startup.canvass.timeout", config.startupCanvassTimeoutNs + "ns");
        properties.put("aeron.cluster.termination.timeout", config.terminationTimeoutNs + "ns");
        properties.put("aeron.cluster.session.timeout", config.sessionTimeoutNs + "ns");
        return properties;
    }
}
