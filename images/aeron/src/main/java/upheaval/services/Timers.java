package upheaval.services;

import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/**
 * Clients schedule and cancel timers, and read which have fired, when and how often.
 *
 * <p>A timer has the operation id of the request that scheduled it, and that request's key as its group. One that fires
 * twice, or that no request scheduled, is seen as that; one that fires after it was cancelled does not count.
 */
public final class Timers extends StateMachine {
    private static final int MAX_TIMERS = 30_000;
    private static final long MAX_DELAY = 1L << 40;
    private static final int KIND = 4;
    private static final int FIRED_LENGTH = 3 * Long.BYTES + Integer.BYTES;

    private final Map<Long, Timer> timers = new LinkedHashMap<>();

    /** Without timers. */
    public Timers() {
        handle(Operation.SCHEDULE_TIMER, this::schedule);
        handle(Operation.CANCEL_TIMER, this::cancel);
        handle(Operation.READ_TIMERS, this::read);
    }

    @Override
    public void onTimer(final long timerId, final long timestamp) {
        final Timer timer = timers.computeIfAbsent(timerId, unknown -> new Timer(-1, ""));
        if (!timer.isCancelled) {
            timer.firedAt = timestamp;
            timer.count++;
        }
    }

    private Response schedule(final Request request, final long position) throws OperationException {
        final long delay = request.requiredLong();
        if (delay < 0 || delay > MAX_DELAY) {
            throw new OperationException("delay of " + delay + ", limit is " + MAX_DELAY);
        }
        if (timers.containsKey(request.operationId())) {
            throw new OperationException("there is a timer " + request.operationId());
        }
        if (timers.size() >= MAX_TIMERS) {
            throw new OperationException("there are already " + MAX_TIMERS + " timers");
        }
        final long deadline = surroundings().time() + delay;
        timers.put(request.operationId(), new Timer(deadline, request.key()));
        surroundings().scheduleTimer(request.operationId(), deadline);
        return Response.accepted(request, position, Bytes.ofLong(deadline));
    }

    /** The answer is the value when the timer had not fired. */
    private Response cancel(final Request request, final long position) throws OperationException {
        final long timerId = request.requiredLong();
        final Timer timer = timers.get(timerId);
        if (timer == null || timer.count > 0 || timer.isCancelled) {
            return Response.comparisonFailed(request, position, null);
        }
        timer.isCancelled = true;
        surroundings().cancelTimer(timerId);
        return Response.accepted(request, position, request.value());
    }

    /** The timers of the group that have fired, in the order of their scheduling. */
    private Response read(final Request request, final long position) {
        final List<byte[]> fired = timers.entrySet().stream()
            .filter(each -> each.getValue().count > 0 && each.getValue().group.equals(request.key()))
            .map(each -> encode(each.getKey(), each.getValue(), Bytes.allocate(FIRED_LENGTH)).array())
            .toList();
        return Response.list(request, position, fired);
    }

    @Override
    public void forEachRecord(final Consumer<StateRecord> consumer) {
        timers.forEach((timerId, timer) -> {
            final ByteBuffer value = encode(timerId, timer, Bytes.allocate(FIRED_LENGTH + 1));
            consumer.accept(new StateRecord(KIND, timer.group, value.put((byte)(timer.isCancelled ? 1 : 0)).array()));
        });
    }

    @Override
    public void load(final StateRecord record) throws DecodeException {
        if (record.kind() != KIND || record.value().length != FIRED_LENGTH + 1) {
            throw record.foreign("a timer");
        }
        final ByteBuffer value = Bytes.reading(record.value());
        final long timerId = value.getLong();
        final Timer timer = new Timer(value.getLong(), record.key());
        timer.firedAt = value.getLong();
        timer.count = value.getInt();
        timer.isCancelled = value.get() != 0;
        timers.put(timerId, timer);
    }

    private static ByteBuffer encode(final long timerId, final Timer timer, final ByteBuffer buffer) {
        return buffer.putLong(timerId).putLong(timer.deadline).putLong(timer.firedAt).putInt(timer.count);
    }

    /** One that is known; {@code firedAt} is when it fired last, -1 for one that has not fired. */
    private static final class Timer {
        final long deadline;
        final String group;
        long firedAt = -1;
        int count;
        boolean isCancelled;

        Timer(final long deadline, final String group) {
            this.deadline = deadline;
            this.group = group;
        }
    }
}
