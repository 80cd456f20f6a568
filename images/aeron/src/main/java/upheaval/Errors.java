package upheaval;

import io.aeron.cluster.service.ClusterTerminationException;
import io.aeron.exceptions.AeronException;
import java.util.HashSet;
import java.util.Set;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import org.agrona.ErrorHandler;
import org.agrona.concurrent.AgentTerminationException;

/**
 * Where one component reports its errors: they go to stderr, the first of each kind at each place to the trace, and those
 * that end the component or will end it to {@link Ending}.
 *
 * <p>The kind of an error of Aeron's own is its category and its class. Of any other exception it is {@code unforeseen}
 * and its class; one of a service that {@link TracedService} has traced is not traced again, and one of a component that is
 * interrupted at its end is none.
 */
final class Errors implements ErrorHandler {
    private static final String AERON = "io.aeron.";

    private final String component;
    private final Ending ending;
    private final Trace trace;
    private final Predicate<Throwable> isTraced;
    private final BooleanSupplier isEndExpected;
    private final Set<String> traced = new HashSet<>();

    private Errors(
        final String component,
        final Ending ending,
        final Trace trace,
        final Predicate<Throwable> isTraced,
        final BooleanSupplier isEndExpected) {
        this.component = component;
        this.ending = ending;
        this.trace = trace;
        this.isTraced = isTraced;
        this.isEndExpected = isEndExpected;
    }

    /** Of a component of Aeron's alone. */
    static Errors of(final String component, final Ending ending, final Trace trace) {
        return new Errors(component, ending, trace, error -> false, () -> true);
    }

    /**
     * Of the container of that service, whose exceptions come here, too. A container whose module is gone calls its own
     * end expected: it is so only when the service was terminated before.
     */
    static Errors ofService(
        final String component, final Ending ending, final Trace trace, final TracedService service) {
        return new Errors(component, ending, trace, service::hasRaised, service::isTerminated);
    }

    @Override
    public void onError(final Throwable error) {
        final boolean isEnd = error instanceof ClusterTerminationException end && end.isExpected();
        if (isEnd && !isEndExpected.getAsBoolean()) {
            ending.onModuleLost(component);
            return;
        }
        System.err.println(System.currentTimeMillis() + " " + component + ": " + error);
        if (error instanceof AgentTerminationException) {
            ending.onTermination(component, text(error), isEnd);
            return;
        }
        traceOnce(error);
        if (error instanceof AeronException known && known.category() != AeronException.Category.FATAL) {
            return;
        }
        error.printStackTrace();
        if (error instanceof AeronException) {
            ending.onFatal(component, text(error));
        } else if (error instanceof Error) {
            ending.onDefect(component, text(error));
        }
    }

    private void traceOnce(final Throwable error) {
        final AeronException.Category category = error instanceof AeronException ofAeron ? ofAeron.category() : null;
        if (category == null && (isTraced.test(error) || ending.hasBegun())) {
            return;
        }
        final String kind = (category == null ? "unforeseen" : category.name()) + " " + error.getClass().getSimpleName();
        final String where = where(error);
        synchronized (traced) {
            if (!traced.add(kind + " " + where)) {
                return;
            }
        }
        trace.event("error",
            "kind", kind,
            "where", where,
            "text", component + ": " + text(error),
            "traceback", category == AeronException.Category.FATAL ? RaisedExceptions.traceback(error) : null);
    }

    /** The class and method of Aeron's in which the error was made, without lines, which differ between versions. */
    private static String where(final Throwable error) {
        for (final StackTraceElement frame : error.getStackTrace()) {
            if (frame.getClassName().startsWith(AERON)) {
                return frame.getClassName().substring(frame.getClassName().lastIndexOf('.') + 1) + "." + frame.getMethodName();
            }
        }
        return "";
    }

    static String text(final Throwable error) {
        return String.valueOf(error).lines().findFirst().orElse("");
    }
}
