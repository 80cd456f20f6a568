package upheaval;

import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.client.AeronArchive;
import io.aeron.cluster.ConsensusModule;
import io.aeron.cluster.service.ClusteredServiceContainer;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import java.io.File;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.NoOpLock;

/** How a member's configuration becomes that of its components. */
final class MemberContexts {
    static final String CONTROL_CHANNEL = "aeron:ipc?term-length=64k";
    static final String SNAPSHOT_CHANNEL = "aeron:ipc?alias=snapshot|term-length=1m";

    private final MemberConfig config;
    private final Ending ending;
    private final Component component;
    private final StallWatch watch;

    /** For a process that runs that component, whose main loop is under that watch. */
    MemberContexts(
        final MemberConfig config, final Ending ending, final Component component, final StallWatch watch) {
        this.config = config;
        this.ending = ending;
        this.component = component;
        this.watch = watch;
    }

    MediaDriver.Context driver() {
        final MediaDriver.Context driver = new MediaDriver.Context()
            .aeronDirectoryName(config.aeronDirectory)
            .threadingMode(ThreadingMode.SHARED)
            .sharedIdleStrategy(loopOf(Component.ARCHIVE))
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(false)
            .warnIfDirectoryExists(false)
            .errorHandler(Errors.of("driver", ending, watch.trace))
            .terminationHook(() -> ending.onHook("driver"));
        new Names(config.names).install(driver);
        return driver;
    }

    Archive.Context archive() {
        final String replicationChannel = "aeron:udp?endpoint=" + config.replicationEndpoint;
        return new Archive.Context()
            .aeronDirectoryName(config.aeronDirectory)
            .archiveDir(config.folder.resolve("archive").toFile())
            .archiveId(config.memberId)
            .threadingMode(ArchiveThreadingMode.SHARED)
            .idleStrategySupplier(StallWatch::idleStrategy)
            .controlChannel("aeron:udp?endpoint=" + config.archiveEndpoint)
            .localControlChannel(CONTROL_CHANNEL)
            .replicationChannel(replicationChannel)
            .archiveClientContext(new AeronArchive.Context().controlResponseChannel(replicationChannel))
            .segmentFileLength(config.segmentLength())
            .fileSyncLevel(config.syncLevel)
            .catalogFileSyncLevel(config.syncLevel)
            .errorHandler(Errors.of("archive", ending, watch.trace));
    }

    /** Under that watch from its first duty cycle to its end. */
    ConsensusModule.Context module(final ModuleWatch watch) {
        final ConsensusModule.Context module = new ConsensusModule.Context()
            .aeronDirectoryName(config.aeronDirectory)
            .archiveContext(localArchive())
            .clusterDir(clusterFolder())
            .clusterMemberId(config.memberId)
            .clusterMembers(config.members)
            .serviceCount(config.services.size())
            .maxConcurrentSessions(config.maxSessions)
            .appVersion(config.appVersion)
            .fileSyncLevel(config.syncLevel)
            .idleStrategySupplier(() -> watch)
            .ingressChannel("aeron:udp")
            .logChannel(config.logChannel())
            .snapshotChannel(SNAPSHOT_CHANNEL)
            .replicationChannel("aeron:udp?endpoint=" + config.replicationEndpoint)
            .leaderHeartbeatIntervalNs(config.leaderHeartbeatIntervalNs)
            .leaderHeartbeatTimeoutNs(config.leaderHeartbeatTimeoutNs)
            .electionTimeoutNs(config.electionTimeoutNs)
            .electionStatusIntervalNs(config.electionStatusIntervalNs)
            .startupCanvassTimeoutNs(config.startupCanvassTimeoutNs)
            .terminationTimeoutNs(config.terminationTimeoutNs)
            .sessionTimeoutNs(config.sessionTimeoutNs)
            .errorHandler(Errors.of("module", ending, watch.trace))
            .terminationHook(() -> {
                watch.measureStall();
                ending.onHook("module");
            });
        watch.watch(module);
        return module;
    }

    ClusteredServiceContainer.Context service(final int serviceId, final TracedService service) {
        final String component = "service-" + serviceId;
        return new ClusteredServiceContainer.Context()
            .aeronDirectoryName(config.aeronDirectory)
            .archiveContext(localArchive())
            .clusterDir(clusterFolder())
            .serviceId(serviceId)
            .serviceName(config.services.get(serviceId))
            .appVersion(config.appVersion)
            .clusteredService(service)
            .idleStrategySupplier(() -> loopOf(Component.SERVICE))
            .snapshotChannel(SNAPSHOT_CHANNEL)
            .errorHandler(Errors.ofService(component, ending, watch.trace, service))
            .terminationHook(() -> ending.onHook(component));
    }

    /** Of a process that runs that component alone it is the main loop. */
    private IdleStrategy loopOf(final Component main) {
        return component == main ? watch : StallWatch.idleStrategy();
    }

    private AeronArchive.Context localArchive() {
        return new AeronArchive.Context()
            .aeronDirectoryName(config.aeronDirectory)
            .lock(NoOpLock.INSTANCE)
            .controlRequestChannel(CONTROL_CHANNEL)
            .controlResponseChannel(CONTROL_CHANNEL);
    }

    private File clusterFolder() {
        return config.folder.resolve("cluster").toFile();
    }
}
