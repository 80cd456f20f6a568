package upheaval;

import java.util.concurrent.TimeUnit;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.SleepingMillisIdleStrategy;

/**
 * Idles between the duty cycles of one loop, and traces its stalls: the work of a cycle, and the time by which it woke up
 * too late.
 */
class StallWatch implements IdleStrategy {
    /** How long a loop may sleep without work. */
    private static final long MAX_PARK_NS = TimeUnit.MILLISECONDS.toNanos(1);

    private static final long PROCESS_PARK_MS = 10;

    /** Shorter stalls cannot explain a missed heartbeat. */
    private static final long STALL_REPORT_NS = TimeUnit.MILLISECONDS.toNanos(50);

    protected final Trace trace;
    private final IdleStrategy idleStrategy;
    /** How long the strategy may sleep. */
    private final long maxParkNs;
    private long woke;
    private long lateNs;
    private volatile long longestStallNs;

    StallWatch(final Trace trace) {
        this(trace, idleStrategy(), MAX_PARK_NS);
    }

    /**
     * Idles as {@code idleStrategy} does, which sleeps no longer than {@code maxParkNs}; {@link Long#MAX_VALUE} where that is
     * not known: then the work of a cycle alone can be a stall.
     */
    StallWatch(final Trace trace, final IdleStrategy idleStrategy, final long maxParkNs) {
        this.trace = trace;
        this.idleStrategy = idleStrategy;
        this.maxParkNs = maxParkNs;
    }

    /** Watches the whole process from a thread of its own, which sleeps and does nothing else. */
    static StallWatch ofProcess(final Trace trace) {
        final StallWatch watch = new StallWatch(trace, new SleepingMillisIdleStrategy(PROCESS_PARK_MS),
            TimeUnit.MILLISECONDS.toNanos(PROCESS_PARK_MS));
        final Thread thread = new Thread(() -> {
            while (true) {
                watch.idle();
            }
        }, "upheaval-stalls");
        thread.setDaemon(true);
        thread.start();
        return watch;
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
        lateNs = Math.max(0, woke - begin - maxParkNs);
    }
}
