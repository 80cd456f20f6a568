package upheaval;

import java.util.concurrent.TimeUnit;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.IdleStrategy;

/**
 * Idles between the duty cycles of one loop, and traces its stalls: the work of a cycle, and the time by which it woke up
 * too late.
 */
class StallWatch implements IdleStrategy {
    /** How long a loop may sleep without work. */
    private static final long MAX_PARK_NS = TimeUnit.MILLISECONDS.toNanos(1);

    /** Shorter stalls cannot explain a missed heartbeat. */
    private static final long STALL_REPORT_NS = TimeUnit.MILLISECONDS.toNanos(50);

    protected final Trace trace;
    private final IdleStrategy idleStrategy;
    private long woke;
    private long lateNs;
    private volatile long longestStallNs;

    StallWatch(final Trace trace) {
        this(trace, idleStrategy());
    }

    /** Idles as {@code idleStrategy} does. */
    StallWatch(final Trace trace, final IdleStrategy idleStrategy) {
        this.trace = trace;
        this.idleStrategy = idleStrategy;
    }

    /** Few spins, and a short park: members share the cores of one machine. */
    static IdleStrategy idleStrategy() {
        return new BackoffIdleStrategy(10, 5, 1_000, MAX_PARK_NS);
    }

    long longestStallNs() {
        return longestStallNs;
    }

    @Override
    public void idle(final int workCount) {
        afterCycle();
        final long begin = System.nanoTime();
        idleStrategy.idle(workCount);
        afterIdle(begin);
    }

    @Override
    public void idle() {
        afterCycle();
        final long begin = System.nanoTime();
        idleStrategy.idle();
        afterIdle(begin);
    }

    @Override
    public void reset() {
        idleStrategy.reset();
    }

    /** The loop has gone round. */
    void afterCycle() {
        measureStall();
    }

    /** Also where the loop ends within a cycle: that may have been a long one. */
    final void measureStall() {
        final long stallNs = woke == 0 ? 0 : System.nanoTime() - woke + lateNs;
        longestStallNs = Math.max(longestStallNs, stallNs);
        if (stallNs >= STALL_REPORT_NS) {
            trace.event("loop-stall", "stall_ns", stallNs, "longest_stall_ns", longestStallNs);
        }
    }

    private void afterIdle(final long begin) {
        woke = System.nanoTime();
        lateNs = Math.max(0, woke - begin - MAX_PARK_NS);
    }
}
