package upheaval.replay;

import io.aeron.cluster.service.ClusterClock;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;

/**
 * Cluster time that does not move, beside time-outs that do. Aeron before 1.49 takes time-outs from cluster time: there
 * it moves.
 */
final class StillClock implements ClusterClock {
    private static final boolean IS_STILL =
        Arrays.stream(ClusterClock.class.getMethods()).anyMatch(method -> "convertToNanos".equals(method.getName()));

    private final long time;
    private final TimeUnit unit;
    private final long startNs = System.nanoTime();

    StillClock(final long time, final TimeUnit unit) {
        this.time = time;
        this.unit = unit;
    }

    @Override
    public TimeUnit timeUnit() {
        return unit;
    }

    @Override
    public long time() {
        return IS_STILL ? time : time + unit.convert(System.nanoTime() - startNs, TimeUnit.NANOSECONDS);
    }

    @Override
    public long timeNanos() {
        return unit.toNanos(time) + System.nanoTime() - startNs;
    }

    /** Of the present, whatever the time. No part of older versions. */
    public long convertToNanos(final long clusterTime) {
        return IS_STILL ? timeNanos() : unit.toNanos(clusterTime);
    }
}
