package upheaval.services;

/** The operation codes of requests and responses. */
final class Operation {
    static final int ECHO = 1;
    static final int READ = 2;
    static final int WRITE = 3;
    static final int COMPARE_AND_SET = 4;
    static final int APPEND = 5;
    static final int READ_LIST = 6;
    static final int SCHEDULE_TIMER = 7;
    static final int CANCEL_TIMER = 8;
    static final int READ_TIMERS = 9;
    static final int TRANSFER = 10;
    static final int BALANCES = 11;
    static final int CREDIT = 12;

    private Operation() {
    }
}
