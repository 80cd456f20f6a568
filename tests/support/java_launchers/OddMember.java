import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.cluster.ConsensusModule;
import io.aeron.cluster.ElectionState;
import io.aeron.cluster.service.ClusteredServiceContainer;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import java.util.concurrent.CountDownLatch;
import org.agrona.concurrent.AgentInvoker;
import org.agrona.concurrent.SleepingMillisIdleStrategy;
import sun.misc.Signal;

/**
 * Starts one member that does one thing otherwise than most: its archive does not {@code start}, it calls
 * {@code exit} when all runs, it {@code closes} its module before its service, a {@code hook} of it exits, an
 * {@code invoker} runs its module, or it {@code late} takes SIGTERM for itself alone; {@code plain} is as most.
 */
public final class OddMember {
    private OddMember() {
    }

    /** Runs until SIGTERM, or until the cluster ends. */
    public static void main(final String[] arguments) throws Exception {
        final String odd = arguments[0];
        final CountDownLatch end = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(end::countDown));
        final Runnable hook = odd.equals("hook") ? () -> System.exit(0) : end::countDown;
        final MediaDriver.Context driver = new MediaDriver.Context()
            .threadingMode(ThreadingMode.SHARED)
            .sharedIdleStrategy(new SleepingMillisIdleStrategy(1))
            .terminationHook(hook);
        final Archive.Context archive = new Archive.Context().threadingMode(ArchiveThreadingMode.SHARED);
        if (odd.equals("start")) {
            archive.threadFactory(work -> {
                throw new IllegalStateException("no archive");
            });
        }
        final ConsensusModule.Context module = new ConsensusModule.Context()
            .useAgentInvoker(odd.equals("invoker"))
            .terminationHook(hook);
        final ClusteredServiceContainer.Context service = new ClusteredServiceContainer.Context().terminationHook(hook);
        try (
            MediaDriver first = MediaDriver.launch(driver);
            Archive second = Archive.launch(archive);
            // An invoked module waits for its services while it starts.
            ClusteredServiceContainer third = ClusteredServiceContainer.launch(service);
            ConsensusModule fourth = ConsensusModule.launch(module)) {
            if (odd.equals("exit")) {
                System.exit(0);
            }
            if (odd.equals("closes")) {
                waitForLeader(module);
                Thread.sleep(100);
                fourth.close();
                // The service finds that.
                end.await();
                return;
            }
            if (odd.equals("late")) {
                Signal.handle(new Signal("TERM"), signal -> end.countDown());
            }
            final AgentInvoker invoker = fourth.conductorAgentInvoker();
            // Its service ends before, and waits for it.
            while (invoker != null && !invoker.isClosed()) {
                if (invoker.invoke() == 0) {
                    Thread.sleep(1);
                }
            }
            end.await();
        }
    }

    /** The service reads the log soon then. */
    private static void waitForLeader(final ConsensusModule.Context module) throws InterruptedException {
        while (ElectionState.get(module.electionStateCounter().get()) != ElectionState.CLOSED
            || module.commitPositionCounter().get() == 0) {
            Thread.sleep(100);
        }
    }
}
