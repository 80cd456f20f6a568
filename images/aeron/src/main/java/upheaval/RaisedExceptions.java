package upheaval;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * What the callbacks of one service threw: where in its code, how often, and the stack trace. The stack trace of each
 * place is traced once, its count again whenever it has doubled, so that a service that throws at every message fills
 * no disk.
 */
final class RaisedExceptions {
    private static final int PLACES_MAX = 50;
    private static final int MESSAGE_MAX = 500;
    private static final int TRACEBACK_MAX = 8000;

    private final Trace trace;
    private final int serviceId;
    /** What the names of the service's classes begin with: its package, or its own name where it has none. */
    private final String ofService;
    private final Map<String, Integer> counts = new HashMap<>();

    RaisedExceptions(final Trace trace, final int serviceId, final Class<?> service) {
        this.trace = trace;
        this.serviceId = serviceId;
        final String place = service.getPackageName();
        ofService = place.isEmpty() ? service.getName() : place + ".";
    }

    /** It came out of that callback, at that position of the log. */
    void tell(final String callback, final long logPosition, final Throwable error) {
        final List<StackTraceElement> frames = Arrays.stream(error.getStackTrace())
            .filter(frame -> frame.getClassName().startsWith(ofService)).toList();
        String place = error.getClass().getName() + frames;
        if (!counts.containsKey(place) && counts.size() >= PLACES_MAX) {
            place = "";
        }
        final int count = counts.merge(place, 1, Integer::sum);
        if (Integer.bitCount(count) != 1) {
            return;
        }
        trace.event("service-raised",
            "service_id", serviceId,
            "callback", callback,
            "error", first(error.getClass().getSimpleName() + ": " + error.getMessage(), MESSAGE_MAX),
            "where", frames.isEmpty() ? "the call of the callback" : where(frames.get(0)),
            "log_position", logPosition,
            "count", count,
            "traceback", count == 1 ? traceback(error) : null);
    }

    private static String where(final StackTraceElement frame) {
        return frame.getFileName() + ":" + frame.getLineNumber() + " in " + frame.getMethodName();
    }

    /** The stack trace, or the beginning of a long one. */
    static String traceback(final Throwable error) {
        final StringWriter text = new StringWriter();
        error.printStackTrace(new PrintWriter(text, true));
        return first(text.toString(), TRACEBACK_MAX);
    }

    private static String first(final String text, final int length) {
        return text.substring(0, Math.min(length, text.length()));
    }
}
