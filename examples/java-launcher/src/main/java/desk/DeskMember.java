package desk;

import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.cluster.ClusteredMediaDriver;
import io.aeron.cluster.ConsensusModule;
import io.aeron.cluster.service.ClusteredServiceContainer;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import org.agrona.concurrent.ShutdownSignalBarrier;
import org.agrona.concurrent.SleepingMillisIdleStrategy;

/** Starts one member as in production. Directories, endpoints and ids are Aeron's system properties. */
public final class DeskMember {
    private DeskMember() {
    }

    /** Runs until SIGTERM, or until the cluster ends. */
    public static void main(final String[] arguments) {
        try (ShutdownSignalBarrier barrier = new ShutdownSignalBarrier()) {
            run(barrier);
        }
    }

    private static void run(final ShutdownSignalBarrier barrier) {
        final MediaDriver.Context driver = new MediaDriver.Context()
            .threadingMode(ThreadingMode.SHARED)
            .sharedIdleStrategy(new SleepingMillisIdleStrategy(1))
            .terminationHook(barrier::signal);
        final Archive.Context archive = new Archive.Context().threadingMode(ArchiveThreadingMode.SHARED);
        final ConsensusModule.Context module = new ConsensusModule.Context()
            .authenticatorSupplier(DeskAuthenticator::new)
            .terminationHook(barrier::signal);
        final ClusteredServiceContainer.Context service = new ClusteredServiceContainer.Context()
            .clusteredService(new DeskService())
            .terminationHook(barrier::signal);
        try (
            ClusteredMediaDriver components = ClusteredMediaDriver.launch(driver, archive, module);
            ClusteredServiceContainer container = ClusteredServiceContainer.launch(service)) {
            barrier.await();
        }
    }
}
