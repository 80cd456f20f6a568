package upheaval;

import io.aeron.cluster.service.Cluster;
import io.aeron.cluster.service.ClusterTerminationException;
import java.lang.reflect.Proxy;
import java.nio.file.Path;

/**
 * The end of a service's container as its module causes it: {@code upheaval.ServiceEnd FOLDER
 * terminated|failed|lost|closed}. A container whose module is gone, or ends it at position 0 after an error, throws the same
 * exception as one that is ended in order; that it is closed after, as the program ends, is no order. Prints the member's status.
 */
public final class ServiceEnd {
    private ServiceEnd() {
    }

    public static void main(final String[] arguments) throws Exception {
        final Path folder = Path.of(arguments[0]);
        final Ending ending = new Ending();
        try (Trace trace = new Trace(folder.resolve("trace.jsonl"), 0, "all", "")) {
            final TracedService service = new TracedService(new ProvokedService(), trace, 0);
            final Errors errors = Errors.ofService("service-0", ending, trace, service);
            switch (arguments[1]) {
                case "terminated" -> terminate(service, 64);
                case "failed" -> terminate(service, 0);
                default -> ending.onHook("service-0");
            }
            errors.onError(new ClusterTerminationException(true));
            if (arguments[1].equals("closed")) {
                terminate(service, 64);
                ending.onProgramEnd("", service.isTerminated());
            }
        }
        System.out.println(ending.status(new Siblings(folder, Component.ALL)) + " " + ending.reason());
    }

    private static void terminate(final TracedService service, final long position) {
        service.onTerminate((Cluster)Proxy.newProxyInstance(
            Cluster.class.getClassLoader(), new Class<?>[]{Cluster.class}, (proxy, method, values) -> position));
    }
}
