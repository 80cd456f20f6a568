package upheaval.services;

import java.util.HashMap;
import java.util.Map;
import java.util.function.Consumer;

/**
 * A service whose requests are operations: decodes them and dispatches by operation code.
 *
 * <p>Nothing that a client sends throws: bytes that are no request, unknown operations and broken limits get an ERROR
 * response. State depends on the calls and their arguments alone, and collections keep the order in which things came,
 * so that snapshots of equal states have equal bytes. Knows nothing of Aeron.
 */
public abstract class StateMachine {
    private final Map<Integer, Handler> handlers = new HashMap<>();
    private Surroundings surroundings;

    /** Does one operation of the log at that position. */
    @FunctionalInterface
    interface Handler {
        Response handle(Request request, long position) throws OperationException;
    }

    /** Before anything else: the cluster that it runs in. */
    public final void join(final Surroundings cluster) {
        surroundings = cluster;
    }

    /** Do the operation of a client at that position of the log; the outcome, if there is one, is for the client. */
    public Response perform(final byte[] message, final long position) {
        try {
            final Request request = Request.decode(message);
            final Handler handler = handlers.get(request.operation());
            if (handler == null) {
                throw new OperationException("operation " + request.operation() + " is unknown to this service");
            }
            return handler.handle(request, position);
        } catch (final DecodeException | OperationException error) {
            return Response.error(message, position, error.getMessage());
        }
    }

    /** A message that a service of the member has offered. */
    public void onServiceMessage(final byte[] message, final long position) {
        perform(message, position);
    }

    /** A timer fired. */
    public void onTimer(final long timerId, final long timestamp) {
    }

    /** The state, in an order that is the same on every member. */
    public abstract void forEachRecord(Consumer<StateRecord> consumer);

    /** Take one record of the state back. Throws for one that is not of this service. */
    public abstract void load(StateRecord record) throws DecodeException;

    final Surroundings surroundings() {
        return surroundings;
    }

    final void handle(final int operation, final Handler handler) {
        handlers.put(operation, handler);
    }
}
