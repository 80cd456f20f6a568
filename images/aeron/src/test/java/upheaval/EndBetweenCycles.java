package upheaval;

import io.aeron.Aeron;
import io.aeron.Counter;
import io.aeron.cluster.ConsensusModule;
import io.aeron.cluster.ConsensusModule.State;
import io.aeron.cluster.service.Cluster;
import io.aeron.cluster.service.ClusterCounters;
import io.aeron.cluster.service.ClusteredServiceContainer;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import org.agrona.ExpandableArrayBuffer;

/**
 * A module that ends its service and closes within one duty cycle: {@code upheaval.EndBetweenCycles FOLDER AERON STATE}, where
 * STATE is the module's as the service ends. The termination hook of the program ends it. Prints the member's status.
 */
public final class EndBetweenCycles {
    private static final int LEADERSHIP_TERM_ID = 239;

    private EndBetweenCycles() {
    }

    public static void main(final String[] arguments) throws Exception {
        final Path folder = Path.of(arguments[0]);
        final Ending ending = new Ending();
        try (Trace trace = new Trace(folder.resolve("trace.jsonl"), 0, "all", "");
            MediaDriver driver = MediaDriver.launch(new MediaDriver.Context()
                .aeronDirectoryName(arguments[1]).threadingMode(ThreadingMode.SHARED).dirDeleteOnShutdown(true));
            Aeron aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(driver.aeronDirectoryName()))) {
            final ConsensusModule.Context module = new ConsensusModule.Context()
                .moduleStateCounter(counter(aeron, ConsensusModule.Configuration.CONSENSUS_MODULE_STATE_TYPE_ID))
                .electionStateCounter(counter(aeron, ConsensusModule.Configuration.ELECTION_STATE_TYPE_ID))
                .clusterNodeRoleCounter(counter(aeron, ConsensusModule.Configuration.CLUSTER_NODE_ROLE_TYPE_ID))
                .leadershipTermIdCounter(counter(aeron, LEADERSHIP_TERM_ID));
            module.moduleStateCounter().set(State.ACTIVE.code());
            final ModuleWatch watch = new ModuleWatch(trace, 0);
            watch.watch(module);
            watch.afterCycle();
            final TracedService service = new TracedService(new ProvokedService(), trace, 0, watch::lookAtTermination);
            module.moduleStateCounter().set(State.valueOf(arguments[2]).code());
            service.onTerminate(clusterOf(aeron));
            module.moduleStateCounter().set(State.CLOSED.code());
            ending.onHook("module");
            ending.onProgramEnd("", service.isTerminated() && watch.wasTerminating());
        }
        System.out.println(ending.status(new Siblings(folder, Component.ALL)));
    }

    private static Counter counter(final Aeron aeron, final int typeId) {
        return ClusterCounters.allocate(aeron, new ExpandableArrayBuffer(), "counter", typeId, 0);
    }

    private static Cluster clusterOf(final Aeron aeron) {
        final ClusteredServiceContainer.Context context = new ClusteredServiceContainer.Context();
        return (Cluster)Proxy.newProxyInstance(
            Cluster.class.getClassLoader(), new Class<?>[]{Cluster.class}, (proxy, method, values) -> switch (method.getName()) {
                case "aeron" -> aeron;
                case "context" -> context;
                default -> 64L;
            });
    }
}
