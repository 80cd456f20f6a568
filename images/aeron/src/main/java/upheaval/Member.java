package upheaval;

import io.aeron.cluster.ConsensusModule;
import io.aeron.cluster.service.ClusteredService;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;

/**
 * One member of an Aeron cluster: {@code upheaval.Member FILE} with a file of properties. SIGTERM ends it in good order
 * with status 0; a member that ends by itself writes why into its trace, and has another status.
 */
public final class Member {
    private Member() {
    }

    /** Runs until a signal, or until a component ends. */
    public static void main(final String[] arguments) throws Exception {
        if (arguments.length != 1) {
            refuse("usage: upheaval.Member FILE");
        }
        final Ending ending = new Ending();
        Signals.take(ending::order);
        try {
            final MemberConfig config = new MemberConfig(Path.of(arguments[0]));
            final List<ClusteredService> services = config.services.stream().map(MemberServices::make).toList();
            run(config, services, ending);
        } catch (final IllegalArgumentException | IOException error) {
            refuse("member: " + error.getMessage());
        }
    }

    private static void run(final MemberConfig config, final List<ClusteredService> services, final Ending ending)
        throws IOException {
        final Trace trace = new Trace(config.folder.resolve("trace.jsonl"), config.memberId, config.runId);
        final String version = ConsensusModule.class.getPackage().getImplementationVersion();
        trace.event("process-start", "system", "aeron", "version", version);
        final ModuleWatch watch = new ModuleWatch(trace, config.memberId);
        try {
            final MemberContexts contexts = new MemberContexts(config, ending);
            final Components components = Components.launch(contexts, watch, services, trace);
            ending.await();
            components.close();
        } catch (final Exception error) {
            error.printStackTrace();
            ending.onTermination("start", Errors.text(error), false);
        }
        end(trace, watch, ending, services.size());
    }

    private static void end(final Trace trace, final ModuleWatch watch, final Ending ending, final int services) {
        if (ending.isOfCluster()) {
            trace.event("cluster-end",
                "log_position", watch.commitPosition(),
                "leadership_term_id", watch.leadershipTermId(),
                "requested_term_id", watch.leadershipTermId(),
                "services", services);
        }
        final Status status = ending.status();
        trace.event("process-end",
            "status", status.code,
            "status_name", status.name(),
            "reason", ending.reason(),
            "longest_stall_ns", watch.longestStallNs());
        System.exit(status.code);
    }

    static void refuse(final String text) {
        System.err.println(text);
        System.exit(Status.USAGE.code);
    }
}
