package upheaval.services;

import java.nio.charset.CharacterCodingException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/**
 * Accounts, and transfers between them that conserve money, each in two steps.
 *
 * <p>A transfer takes the amount from one account at its own entry, and offers a message to the log; the other account
 * gets the amount when that comes back. In between it is in flight. A message of the service that is lost or comes
 * twice changes the sum.
 */
public final class Ledger extends StateMachine {
    private static final long INITIAL_BALANCE = 100;
    private static final int MAX_ACCOUNTS = 10_000;
    private static final long MAX_AMOUNT = 1L << 40;
    private static final int ACCOUNT_KIND = 5;
    private static final int FLIGHT_KIND = 6;

    private static final Comparator<String> BY_CODE_POINT =
        (one, other) -> Arrays.compareUnsigned(Bytes.ofText(one), Bytes.ofText(other));

    private final Map<String, Long> accounts = new LinkedHashMap<>();
    private final Map<Long, Long> inFlight = new LinkedHashMap<>();

    /** Without accounts: each one comes to be when it is named first. */
    public Ledger() {
        handle(Operation.TRANSFER, this::transfer);
        handle(Operation.BALANCES, this::balances);
    }

    /**
     * The second step of a transfer. What is no such step, or names no account, is of another service of the member and
     * is left alone.
     */
    @Override
    public void onServiceMessage(final byte[] message, final long position) {
        final Request request;
        try {
            request = Request.decode(message);
        } catch (final DecodeException foreign) {
            return;
        }
        final byte[] value = request.value();
        final boolean isCredit = request.operation() == Operation.CREDIT && value != null && value.length == Long.BYTES;
        if (isCredit && accounts.containsKey(request.key())) {
            accounts.merge(request.key(), Bytes.reading(value).getLong(), Long::sum);
            inFlight.remove(request.operationId());
        }
    }

    private Response transfer(final Request request, final long position) throws OperationException {
        final long amount = request.requiredLong();
        final String source = request.key();
        final String target = target(request);
        check(request, amount, source, target);
        accounts.putIfAbsent(source, INITIAL_BALANCE);
        accounts.putIfAbsent(target, INITIAL_BALANCE);
        if (accounts.get(source) < amount) {
            return Response.comparisonFailed(request, position, null);
        }
        accounts.merge(source, -amount, Long::sum);
        inFlight.put(request.operationId(), amount);
        final Request credit = new Request(request.operationId(), Operation.CREDIT, target, Bytes.ofLong(amount), null);
        surroundings().offer(credit.encode());
        return Response.accepted(request, position);
    }

    private void check(final Request request, final long amount, final String source, final String target)
        throws OperationException {
        if (amount <= 0 || amount > MAX_AMOUNT) {
            throw new OperationException("amount " + amount + ", it must be from 1 to " + MAX_AMOUNT);
        }
        if (source.isEmpty() || target.isEmpty() || source.equals(target)) {
            throw new OperationException("a transfer needs two accounts with different names");
        }
        final int fresh = (accounts.containsKey(source) ? 0 : 1) + (accounts.containsKey(target) ? 0 : 1);
        if (fresh + accounts.size() > MAX_ACCOUNTS) {
            throw new OperationException("there are already " + MAX_ACCOUNTS + " accounts");
        }
        if (inFlight.containsKey(request.operationId())) {
            throw new OperationException("transfer " + request.operationId() + " is in flight");
        }
    }

    /** What is in flight, without a name, and then each account, by name. */
    private Response balances(final Request request, final long position) {
        final List<byte[]> values = new ArrayList<>();
        values.add(Bytes.ofLong(inFlight.values().stream().mapToLong(Long::longValue).sum()));
        accounts.keySet().stream().sorted(BY_CODE_POINT).forEach(name -> values.add(named(accounts.get(name), name)));
        return Response.list(request, position, values);
    }

    @Override
    public void forEachRecord(final Consumer<StateRecord> consumer) {
        accounts.forEach((name, balance) -> consumer.accept(new StateRecord(ACCOUNT_KIND, name, Bytes.ofLong(balance))));
        inFlight.forEach((transferId, amount) ->
            consumer.accept(new StateRecord(FLIGHT_KIND, Long.toString(transferId), Bytes.ofLong(amount))));
    }

    @Override
    public void load(final StateRecord record) throws DecodeException {
        final boolean isAccount = record.kind() == ACCOUNT_KIND;
        if (!isAccount && record.kind() != FLIGHT_KIND || record.value().length != Long.BYTES) {
            throw record.foreign("one of a ledger");
        }
        final long number = Bytes.reading(record.value()).getLong();
        if (isAccount) {
            accounts.put(record.key(), number);
        } else {
            inFlight.put(transferId(record), number);
        }
    }

    private static long transferId(final StateRecord record) throws DecodeException {
        try {
            final long transferId = Long.parseLong(record.key());
            if (Long.toString(transferId).equals(record.key())) {
                return transferId;
            }
        } catch (final NumberFormatException foreign) {
            // As any other key that `forEachRecord` does not write.
        }
        throw record.foreign("a transfer in flight");
    }

    private static String target(final Request request) throws OperationException {
        try {
            return request.expected() == null ? "" : Bytes.text(request.expected());
        } catch (final CharacterCodingException notText) {
            throw new OperationException("the name of an account is not UTF-8 text");
        }
    }

    private static byte[] named(final long amount, final String name) {
        final byte[] bytes = Bytes.ofText(name);
        return Bytes.allocate(Long.BYTES + bytes.length).putLong(amount).put(bytes).array();
    }
}
