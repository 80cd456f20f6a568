package upheaval;

import io.aeron.cluster.service.ClusterTerminationException;
import io.aeron.exceptions.AeronException;
import org.agrona.ErrorHandler;
import org.agrona.concurrent.AgentTerminationException;

/** Where one component reports its errors: they go to stderr, and those that end it or will end it to {@link Ending}. */
final class Errors implements ErrorHandler {
    private final String component;
    private final Ending ending;

    Errors(final String component, final Ending ending) {
        this.component = component;
        this.ending = ending;
    }

    @Override
    public void onError(final Throwable error) {
        System.err.println(System.currentTimeMillis() + " " + component + ": " + error);
        if (error instanceof AgentTerminationException) {
            final boolean expected = error instanceof ClusterTerminationException end && end.isExpected();
            ending.onTermination(component, text(error), expected);
            return;
        }
        if (error instanceof AeronException told && told.category() != AeronException.Category.FATAL) {
            return;
        }
        error.printStackTrace();
        if (error instanceof AeronException) {
            ending.onFatal(component, text(error));
        } else if (error instanceof Error) {
            ending.onDefect(component, text(error));
        }
    }

    static String text(final Throwable error) {
        return String.valueOf(error).lines().findFirst().orElse("");
    }
}
