package upheaval;

import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.client.AeronArchive;
import io.aeron.cluster.ClusterBackup;
import io.aeron.cluster.ConsensusModule;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.agrona.CloseHelper;

/**
 * A backup of an Aeron cluster: {@code upheaval.Backup FILE} with a file of properties. It ends as a {@link Member}
 * does, and traces its start and its end.
 */
public final class Backup {
    private static final int NO_MEMBER = -1;
    private static final String CONTROL_CHANNEL = "aeron:ipc?term-length=64k";

    private final Settings settings;
    private final Ending ending;
    private final Path folder;
    private final String aeronDirectory;
    /** Of its own host, and any port. */
    private final String anyPort;

    private Backup(final Settings settings, final Ending ending) {
        this.settings = settings;
        this.ending = ending;
        folder = Path.of(settings.text("folder"));
        aeronDirectory = settings.text("aeron.dir");
        final String endpoint = settings.text("archive.endpoint");
        anyPort = "aeron:udp?endpoint=" + endpoint.substring(0, endpoint.lastIndexOf(':')) + ":0";
    }

    /** Runs until a signal, or until a component ends. */
    public static void main(final String[] arguments) throws Exception {
        if (arguments.length != 1) {
            Member.refuse("usage: upheaval.Backup FILE");
        }
        final Ending ending = new Ending();
        Signals.take(ending::order);
        try {
            new Backup(new Settings(Path.of(arguments[0])), ending).run();
        } catch (final IllegalArgumentException | IOException error) {
            Member.refuse("backup: " + error.getMessage());
        }
    }

    private void run() throws IOException {
        final Path file = folder.resolve("trace.jsonl");
        final Trace trace = new Trace(file, NO_MEMBER, Component.ALL.traced(), settings.text("run.id"));
        final MediaDriver.Context driver = driver(trace);
        final Archive.Context archive = archive(trace);
        final ClusterBackup.Context backup = backup(trace);
        settings.requireAllRead();
        final String version = ConsensusModule.class.getPackage().getImplementationVersion();
        trace.event("process-start", "system", "aeron", "version", version);
        final List<AutoCloseable> running = new ArrayList<>();
        try {
            running.add(0, MediaDriver.launch(driver));
            running.add(0, Archive.launch(archive));
            running.add(0, ClusterBackup.launch(backup));
            ending.await();
        } catch (final Exception error) {
            error.printStackTrace();
            ending.onTermination("start", Errors.text(error), false);
        }
        CloseHelper.quietCloseAll(running);
        final Status status = ending.status(new Siblings(folder, Component.ALL));
        trace.event("process-end", "status", status.code, "status_name", status.name(), "reason", ending.reason());
        System.exit(status.code);
    }

    private MediaDriver.Context driver(final Trace trace) {
        return new MediaDriver.Context()
            .aeronDirectoryName(aeronDirectory)
            .threadingMode(ThreadingMode.SHARED)
            .sharedIdleStrategy(StallWatch.idleStrategy())
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(false)
            .warnIfDirectoryExists(false)
            .errorHandler(Errors.of("driver", ending, trace))
            .terminationHook(() -> ending.onHook("driver"));
    }

    private Archive.Context archive(final Trace trace) {
        final int syncLevel = settings.number("sync.level");
        return new Archive.Context()
            .aeronDirectoryName(aeronDirectory)
            .archiveDir(folder.resolve("archive").toFile())
            .threadingMode(ArchiveThreadingMode.SHARED)
            .idleStrategySupplier(StallWatch::idleStrategy)
            .controlChannel("aeron:udp?endpoint=" + settings.text("archive.endpoint"))
            .localControlChannel(CONTROL_CHANNEL)
            .replicationChannel(anyPort)
            .archiveClientContext(new AeronArchive.Context().controlResponseChannel(anyPort))
            .segmentFileLength(settings.number("segment.length"))
            .fileSyncLevel(syncLevel)
            .catalogFileSyncLevel(syncLevel)
            .errorHandler(Errors.of("archive", ending, trace));
    }

    private ClusterBackup.Context backup(final Trace trace) {
        return new ClusterBackup.Context()
            .aeronDirectoryName(aeronDirectory)
            .clusterDir(folder.resolve("cluster").toFile())
            .archiveContext(new AeronArchive.Context()
                .controlRequestChannel(CONTROL_CHANNEL)
                .controlResponseChannel(CONTROL_CHANNEL))
            .clusterArchiveContext(new AeronArchive.Context()
                .controlRequestChannel("aeron:udp")
                .controlResponseChannel(anyPort))
            .clusterConsensusEndpoints(settings.text("consensus.endpoints"))
            .consensusChannel("aeron:udp?endpoint=" + settings.text("consensus.endpoint"))
            .catchupChannel("aeron:udp")
            .catchupEndpoint(settings.text("catchup.endpoint"))
            .sourceType(ClusterBackup.SourceType.valueOf(settings.text("source")))
            .initialReplayStart(ClusterBackup.Configuration.ReplayStart.valueOf(settings.text("replay.start")))
            .clusterBackupIntervalNs(settings.duration("query.interval.ms"))
            .clusterBackupResponseTimeoutNs(settings.duration("response.timeout.ms"))
            .clusterBackupProgressTimeoutNs(settings.duration("progress.timeout.ms"))
            .clusterBackupCoolDownIntervalNs(settings.duration("cool.down.interval.ms"))
            .replicationProgressTimeoutNs(settings.duration("replication.progress.timeout.ms"))
            .idleStrategySupplier(StallWatch::idleStrategy)
            .errorHandler(Errors.of("backup", ending, trace))
            .terminationHook(() -> ending.onHook("backup"));
    }
}
