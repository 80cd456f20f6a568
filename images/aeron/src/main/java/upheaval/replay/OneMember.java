package upheaval.replay;

import io.aeron.CommonContext;
import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.ArchivingMediaDriver;
import io.aeron.archive.client.AeronArchive;
import io.aeron.cluster.ClusterControl;
import io.aeron.cluster.ConsensusModule;
import io.aeron.cluster.RecordingLog;
import io.aeron.cluster.client.AeronCluster;
import io.aeron.cluster.service.ClusteredService;
import io.aeron.cluster.service.ClusteredServiceContainer;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import java.io.File;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.agrona.CloseHelper;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.NoOpLock;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * A cluster of one member of Aeron's own, which begins with the files of a member. Its cluster time does not move, so two
 * of them give the same times to the same requests.
 */
final class OneMember implements AutoCloseable {
    /** The member needs none that others know: no other process dials it. */
    private static final String NO_ADDRESS = "localhost:0";
    private static final String CONTROL_CHANNEL = "aeron:ipc?term-length=64k";
    private static final String SNAPSHOT_CHANNEL = "aeron:ipc?alias=snapshot|term-length=1m";
    private static final String CLIENT_CHANNEL = "aeron:ipc?term-length=1m";
    private static final long PARK_NS = 200_000;
    private static final long STEP_TIMEOUT_NS = TimeUnit.SECONDS.toNanos(120);
    private static final int QUIET_ROUNDS = 8;
    private static final long NEVER_NS = TimeUnit.HOURS.toNanos(10);

    private final String aeronDirectory = CommonContext.getAeronDirectoryName() + "-" + UUID.randomUUID();
    private final IdleStrategy idle = idleStrategy();
    private final Effects effects;
    private final CountedService service;
    private ArchivingMediaDriver driver;
    private ConsensusModule module;
    private final ConsensusModule.Context moduleContext;
    private ClusteredServiceContainer container;
    private AeronCluster client;
    private volatile String ended;

    /** Throws {@link IllegalStateException} with one line where no leader takes a client. */
    OneMember(final Files files, final StillClock clock, final ClusteredService service, final Effects effects) {
        this.effects = effects;
        this.service = new CountedService(service);
        final File cluster = new File(files.folder(), "cluster");
        if (!files.usesSnapshots()) {
            forgetSnapshots(cluster);
        }
        moduleContext = module(files, cluster, clock);
        try {
            driver = ArchivingMediaDriver.launch(driver(), archive(files));
            module = ConsensusModule.launch(moduleContext);
            container = ClusteredServiceContainer.launch(container(cluster));
            client = connected();
            awaitQuiet();
        } catch (final RuntimeException error) {
            close();
            throw error;
        }
    }

    /** Whose files, where, and whether their snapshots count. */
    record Files(File folder, int memberId, boolean usesSnapshots) {
    }

    private static IdleStrategy idleStrategy() {
        return new BackoffIdleStrategy(10, 5, 1_000, PARK_NS);
    }

    private static void forgetSnapshots(final File cluster) {
        try (RecordingLog recordings = new RecordingLog(cluster, false)) {
            boolean isChanged = true;
            while (isChanged) {
                isChanged = recordings.invalidateLatestSnapshot();
            }
        }
    }

    private MediaDriver.Context driver() {
        return new MediaDriver.Context()
            .aeronDirectoryName(aeronDirectory)
            .threadingMode(ThreadingMode.SHARED)
            .sharedIdleStrategy(idleStrategy())
            // A starved machine is no reason to give up.
            .clientLivenessTimeoutNs(STEP_TIMEOUT_NS)
            .publicationUnblockTimeoutNs(2 * STEP_TIMEOUT_NS)
            .publicationTermBufferLength(1 << 16)
            .ipcTermBufferLength(1 << 16)
            .errorHandler(this::fail)
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(true);
    }

    private Archive.Context archive(final Files files) {
        return new Archive.Context()
            .aeronDirectoryName(aeronDirectory)
            .archiveDir(new File(files.folder(), "archive"))
            .archiveId(files.memberId())
            .threadingMode(ArchiveThreadingMode.SHARED)
            .idleStrategySupplier(OneMember::idleStrategy)
            .controlChannelEnabled(false)
            .localControlChannel(CONTROL_CHANNEL)
            .replicationChannel("aeron:udp?endpoint=" + NO_ADDRESS)
            .archiveClientContext(new AeronArchive.Context().controlResponseChannel("aeron:udp?endpoint=" + NO_ADDRESS))
            .recordingEventsEnabled(false)
            .errorHandler(this::fail);
    }

    private ConsensusModule.Context module(final Files files, final File cluster, final StillClock clock) {
        return new ConsensusModule.Context()
            .aeronDirectoryName(aeronDirectory)
            .archiveContext(localArchive())
            .clusterDir(cluster)
            .clusterMemberId(files.memberId())
            .clusterMembers(files.memberId() + ("," + NO_ADDRESS).repeat(5))
            .clusterClock(clock)
            .idleStrategySupplier(OneMember::idleStrategy)
            .ingressChannel(CLIENT_CHANNEL)
            .logChannel("aeron:udp?term-length=1m")
            .snapshotChannel(SNAPSHOT_CHANNEL)
            .replicationChannel("aeron:udp?endpoint=" + NO_ADDRESS)
            // Clients of the log do not come back, and no session times out: cluster time is no measure.
            .sessionTimeoutNs(NEVER_NS)
            .leaderHeartbeatTimeoutNs(NEVER_NS)
            .startupCanvassTimeoutNs(2 * NEVER_NS)
            .errorHandler(this::fail)
            .terminationHook(() -> end("its module ended"));
    }

    private ClusteredServiceContainer.Context container(final File cluster) {
        return new ClusteredServiceContainer.Context()
            .aeronDirectoryName(aeronDirectory)
            .archiveContext(localArchive())
            .clusterDir(cluster)
            .clusteredService(service)
            .idleStrategySupplier(OneMember::idleStrategy)
            .snapshotChannel(SNAPSHOT_CHANNEL)
            .errorHandler(this::fail)
            .terminationHook(() -> end("its service container ended"));
    }

    private AeronArchive.Context localArchive() {
        return new AeronArchive.Context()
            .aeronDirectoryName(aeronDirectory)
            .lock(NoOpLock.INSTANCE)
            .messageTimeoutNs(STEP_TIMEOUT_NS)
            .controlRequestChannel(CONTROL_CHANNEL)
            .controlResponseChannel(CONTROL_CHANNEL);
    }

    private AeronCluster connected() {
        final AeronCluster.AsyncConnect connecting = AeronCluster.asyncConnect(new AeronCluster.Context()
            .aeronDirectoryName(aeronDirectory)
            .ingressChannel(CLIENT_CHANNEL)
            .egressChannel(CLIENT_CHANNEL)
            .messageTimeoutNs(STEP_TIMEOUT_NS)
            .egressListener((session, timestamp, buffer, offset, length, header) ->
                effects.egress(0, Effects.bytes(buffer, offset, length))));
        final AeronCluster[] connected = new AeronCluster[1];
        await("no leader takes a client", () -> {
            connected[0] = connecting.poll();
            return connected[0] != null;
        });
        return connected[0];
    }

    /** What the service sends to the client that asks, until the log is quiet again, becomes effects. */
    void ask(final byte[] request) {
        final long before = service.requests();
        final UnsafeBuffer buffer = new UnsafeBuffer(request);
        await("a request is not taken", () -> client.offer(buffer, 0, request.length) > 0);
        await("a request is not handled", () -> {
            client.pollEgress();
            return service.requests() > before;
        });
        awaitQuiet();
        final String raised = service.takeRaised();
        if (raised != null) {
            effects.raised(raised);
        }
    }

    /** What a service tells the log goes through the module, which asks again after at most one park of its loop. */
    private void awaitQuiet() {
        final long[] quiet = {service.position(), 0};
        await("the log does not become quiet", () -> {
            final boolean isMoving = client.pollEgress() > 0
                || service.position() != quiet[0]
                || service.position() < moduleContext.commitPositionCounter().get();
            quiet[0] = service.position();
            quiet[1] = isMoving ? 0 : quiet[1] + 1;
            LockSupport.parkNanos(PARK_NS);
            return quiet[1] >= QUIET_ROUNDS;
        });
    }

    /** The member takes one, as for an operator. */
    void takeSnapshot() {
        final long before = moduleContext.snapshotCounter().get();
        await("a snapshot is not begun", () -> ClusterControl.ToggleState.SNAPSHOT.toggle(moduleContext.controlToggleCounter()));
        await("a snapshot is not taken", () -> moduleContext.snapshotCounter().get() > before);
    }

    private void await(final String failure, final BooleanSupplier isDone) {
        final long deadline = System.nanoTime() + STEP_TIMEOUT_NS;
        idle.reset();
        while (!isDone.getAsBoolean()) {
            if (ended != null || System.nanoTime() > deadline) {
                throw new IllegalStateException(ended != null ? ended : failure);
            }
            idle.idle();
        }
    }

    private void fail(final Throwable error) {
        if (!service.hasThrown(error)) {
            end(String.valueOf(error).lines().findFirst().orElse(""));
        }
    }

    private void end(final String why) {
        if (ended == null) {
            ended = why;
        }
    }

    @Override
    public void close() {
        CloseHelper.quietCloseAll(client, container, module, driver);
    }
}
