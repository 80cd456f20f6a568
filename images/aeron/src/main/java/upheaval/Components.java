package upheaval;

import io.aeron.archive.Archive;
import io.aeron.cluster.ConsensusModule;
import io.aeron.cluster.service.ClusteredService;
import io.aeron.cluster.service.ClusteredServiceContainer;
import io.aeron.driver.MediaDriver;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.agrona.CloseHelper;

/** What runs of a member in this process: media driver and archive, consensus module, services. */
final class Components {
    /** So long the driver outlives the module: the others must hear that the log has ended, or wait for a time-out. */
    private static final long LAST_WORDS_MS = 1500;

    private final List<ClusteredServiceContainer> services = new ArrayList<>();
    private MediaDriver driver;
    private Archive archive;
    private ConsensusModule module;

    private final ModuleWatch watch;

    private Components(final ModuleWatch watch) {
        this.watch = watch;
    }

    /** Starts what the process is to run, or throws and leaves none. {@code watch} is needed for the module. */
    static Components launch(
        final Component component,
        final MemberContexts contexts,
        final ModuleWatch watch,
        final List<ClusteredService> services,
        final Ending ending) {
        final Components components = new Components(watch);
        try {
            if (component.hasArchive()) {
                components.driver = MediaDriver.launch(contexts.driver());
                components.archive = Archive.launch(contexts.archive());
            }
            if (component.hasModule()) {
                components.module = ConsensusModule.launch(contexts.module(watch));
            }
            for (int serviceId = 0; serviceId < services.size(); serviceId++) {
                final TracedService traced = new TracedService(services.get(serviceId), watch.trace, serviceId);
                components.services.add(ClusteredServiceContainer.launch(contexts.service(serviceId, traced)));
            }
            return components;
        } catch (final RuntimeException error) {
            // The ends of those that run already are its consequence.
            ending.onTermination("start", Errors.text(error), false);
            components.close();
            throw error;
        }
    }

    /** In the order in which the others of the cluster, and the files, get the most of it. */
    void close() {
        CloseHelper.quietCloseAll(services);
        CloseHelper.quietClose(module);
        watch.closed();
        if (driver != null) {
            sleep();
        }
        CloseHelper.quietClose(archive);
        CloseHelper.quietClose(driver);
    }

    private static void sleep() {
        try {
            TimeUnit.MILLISECONDS.sleep(LAST_WORDS_MS);
        } catch (final InterruptedException hurried) {
            Thread.currentThread().interrupt();
        }
    }
}
