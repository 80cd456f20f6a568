package upheaval;

import io.aeron.cluster.service.ClusteredService;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;

/**
 * One member of an Aeron cluster, or one component of it: {@code upheaval.Member FILE [COMPONENT]} with a file of
 * properties. SIGTERM ends it in good order with status 0; one that ends by itself writes why into its trace, and has
 * another status.
 */
public final class Member {
    private final MemberConfig config;
    private final Component component;
    private final Ending ending;

    private Member(final MemberConfig config, final Component component, final Ending ending) {
        this.config = config;
        this.component = component;
        this.ending = ending;
    }

    /** Runs until a signal, or until a component ends. */
    public static void main(final String[] arguments) throws Exception {
        if (arguments.length < 1 || arguments.length > 2) {
            refuse("usage: upheaval.Member FILE [COMPONENT]");
        }
        final Ending ending = new Ending();
        Signals.take(ending::order);
        try {
            final Component component = Component.of(arguments.length > 1 ? arguments[1] : Component.ALL.toString());
            final MemberConfig config = new MemberConfig(Path.of(arguments[0]));
            new Member(config, component, ending).run();
        } catch (final IllegalArgumentException | IOException error) {
            refuse("member: " + error.getMessage());
        }
    }

    private void run() throws IOException {
        final List<ClusteredService> services =
            component.hasServices() ? config.services.stream().map(MemberServices::make).toList() : List.of();
        final Trace trace =
            new Trace(config.folder.resolve("trace.jsonl"), config.memberId, component.traced(), config.runId);
        trace.event("process-start", "system", "aeron", "version", AeronVersion.running());
        final ModuleWatch watch = new ModuleWatch(trace, config.memberId);
        final StallWatch main = component.hasModule() ? watch : new StallWatch(trace);
        final Siblings siblings = new Siblings(config.folder, component);
        try {
            final MemberContexts contexts = new MemberContexts(config, ending, component, main);
            final Components components = Components.launch(component, contexts, watch, services, ending);
            siblings.endWithModule(ending);
            ending.await();
            siblings.letModuleGo();
            if (siblings.hasDriver()) {
                components.close();
            }
        } catch (final Exception error) {
            error.printStackTrace();
            ending.onTermination("start", Errors.text(error), false);
        }
        final ModuleWatch module = component.hasModule() ? watch : null;
        System.exit(ending.trace(trace, module, config.services.size(), siblings, main.longestStallNs()).code);
    }

    static void refuse(final String text) {
        System.err.println(text);
        System.exit(Status.USAGE.code);
    }
}
