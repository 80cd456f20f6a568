package upheaval.services;

import java.util.function.Consumer;

/** Echo, registers and lists in one service. A key may be both a register and a list. */
public final class Workbench extends StateMachine {
    private final Registers registers = new Registers();
    private final Lists lists = new Lists();

    /** With no state. */
    public Workbench() {
        handle(Operation.ECHO, (request, position) -> Response.accepted(request, position, request.value()));
        handle(Operation.READ, registers::read);
        handle(Operation.WRITE, registers::write);
        handle(Operation.COMPARE_AND_SET, registers::compareAndSet);
        handle(Operation.APPEND, lists::append);
        handle(Operation.READ_LIST, lists::read);
    }

    @Override
    public void forEachRecord(final Consumer<StateRecord> consumer) {
        registers.forEachRecord(consumer);
        lists.forEachRecord(consumer);
    }

    @Override
    public void load(final StateRecord record) throws DecodeException {
        if (!registers.load(record) && !lists.load(record)) {
            throw record.foreign("one of a workbench");
        }
    }
}
