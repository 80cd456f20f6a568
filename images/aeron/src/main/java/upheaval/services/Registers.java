package upheaval.services;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;

/** One value for each key, with read, write and compare-and-set. An absent key reads as no value. */
final class Registers {
    private static final int KIND = 1;
    private static final int MAX_KEYS = 1_000_000;

    private final Map<String, byte[]> values = new LinkedHashMap<>();

    Response read(final Request request, final long position) {
        return Response.accepted(request, position, values.get(request.key()));
    }

    Response write(final Request request, final long position) throws OperationException {
        set(request.key(), request.requiredValue());
        return Response.accepted(request, position);
    }

    /** No expected value means that the key must be absent. */
    Response compareAndSet(final Request request, final long position) throws OperationException {
        final byte[] value = request.requiredValue();
        final byte[] current = values.get(request.key());
        if (!Arrays.equals(current, request.expected())) {
            return Response.comparisonFailed(request, position, current);
        }
        set(request.key(), value);
        return Response.accepted(request, position);
    }

    void forEachRecord(final Consumer<StateRecord> consumer) {
        values.forEach((key, value) -> consumer.accept(new StateRecord(KIND, key, value)));
    }

    /** Whether the record is a register. */
    boolean load(final StateRecord record) {
        if (record.kind() == KIND) {
            values.put(record.key(), record.value());
        }
        return record.kind() == KIND;
    }

    private void set(final String key, final byte[] value) throws OperationException {
        if (values.size() >= MAX_KEYS && !values.containsKey(key)) {
            throw new OperationException("there are already " + MAX_KEYS + " keys");
        }
        values.put(key, value);
    }
}
