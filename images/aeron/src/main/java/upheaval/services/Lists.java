package upheaval.services;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/** A list of values for each key, with append and read. An absent key reads as the empty list. */
final class Lists {
    private static final int KIND = 2;
    private static final int MAX_KEYS = 1_000_000;

    private final Map<String, ValueList> lists = new LinkedHashMap<>();

    Response append(final Request request, final long position) throws OperationException {
        final byte[] value = request.requiredValue();
        final ValueList list = lists.get(request.key());
        if ((list == null ? 0 : list.length) + ValueList.length(value) > Response.maxListLength()) {
            final String limit = Response.maxListLength() + " bytes";
            throw new OperationException("the list of this key would be longer than " + limit);
        }
        if (list == null && lists.size() >= MAX_KEYS) {
            throw new OperationException("there are already " + MAX_KEYS + " keys");
        }
        add(request.key(), value);
        return Response.accepted(request, position);
    }

    Response read(final Request request, final long position) {
        final ValueList list = lists.get(request.key());
        return Response.list(request, position, list == null ? List.of() : list.values);
    }

    /** A record for each value, those of a key in the order of the list. */
    void forEachRecord(final Consumer<StateRecord> consumer) {
        lists.forEach((key, list) -> list.values.forEach(value -> consumer.accept(new StateRecord(KIND, key, value))));
    }

    /** Whether the record is the next value of a list. */
    boolean load(final StateRecord record) {
        if (record.kind() == KIND) {
            add(record.key(), record.value());
        }
        return record.kind() == KIND;
    }

    private void add(final String key, final byte[] value) {
        final ValueList list = lists.computeIfAbsent(key, absent -> new ValueList());
        list.values.add(value);
        list.length += ValueList.length(value);
    }

    /** The values of one key, and how long they are in a response. */
    private static final class ValueList {
        final List<byte[]> values = new ArrayList<>();
        int length;

        static int length(final byte[] value) {
            return value.length + Integer.BYTES;
        }
    }
}
