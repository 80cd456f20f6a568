import io.aeron.CommonContext;
import io.aeron.cluster.client.AeronCluster;
import io.aeron.cluster.client.EgressListener;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.Header;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import org.agrona.DirectBuffer;
import org.agrona.collections.Long2LongHashMap;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Keeps a window of requests in flight on one session of an Aeron cluster, and prints answers a second and their
 * latencies: {@code WindowLoad INGRESS_ENDPOINTS REQUEST_HEX WINDOW WARM_UP_S SECONDS [RATE]}. Request and answer begin
 * with an id. With RATE, requests a second, each is sent at its time, and its latency counts from then. Without, the
 * measured time begins when the rate is steady, as {@code bench/warm_up.py} has it, and not after WARM_UP_S.
 */
public final class WindowLoad implements EgressListener {
    private static final long NONE = -1;
    private static final long LONGEST_PARK_NS = TimeUnit.MILLISECONDS.toNanos(1);
    private static final long LONGEST_PARK_OF_RATE_NS = TimeUnit.MICROSECONDS.toNanos(50);
    private static final long AHEAD_NS = TimeUnit.MICROSECONDS.toNanos(150);
    private static final long WARM_UP_WINDOW_NS = TimeUnit.SECONDS.toNanos(1);
    private static final int WARM_UP_WINDOWS = 3;
    private static final double WARM_UP_SPREAD = 0.05;
    private static final long WARM_UP_LIMIT_NS = TimeUnit.SECONDS.toNanos(60);

    private final UnsafeBuffer request;
    private final int window;
    private final Long2LongHashMap sentNs = new Long2LongHashMap(NONE);
    private long[] latenciesNs = new long[1 << 16];
    private int measured;
    private long answered;
    private long beginNs;
    private long endNs;
    private long nextId = 1;

    private WindowLoad(final byte[] request, final int window) {
        this.request = new UnsafeBuffer(request);
        this.window = window;
    }

    public static void main(final String[] arguments) {
        final byte[] request = HexFormat.of().parseHex(arguments[1]);
        final WindowLoad load = new WindowLoad(request, Integer.parseInt(arguments[2]));
        final long rate = arguments.length > 5 ? Long.parseLong(arguments[5]) : 0;
        final long longestParkNs = rate > 0 ? LONGEST_PARK_OF_RATE_NS : LONGEST_PARK_NS;
        final MediaDriver.Context driver = new MediaDriver.Context()
            .aeronDirectoryName(CommonContext.generateRandomDirName())
            .threadingMode(ThreadingMode.SHARED)
            .sharedIdleStrategy(idleStrategy(longestParkNs))
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(true);
        try (MediaDriver running = MediaDriver.launch(driver);
            AeronCluster cluster = AeronCluster.connect(new AeronCluster.Context()
                .aeronDirectoryName(running.aeronDirectoryName())
                .ingressChannel("aeron:udp?term-length=2m")
                .ingressEndpoints(arguments[0])
                .egressChannel("aeron:udp?endpoint=127.0.0.1:0")
                .messageTimeoutNs(TimeUnit.SECONDS.toNanos(20))
                .egressListener(load))) {
            if (rate > 0) {
                load.beginNs = System.nanoTime() + seconds(arguments[3]);
                load.endNs = load.beginNs + seconds(arguments[4]);
                load.runAtRate(cluster, TimeUnit.SECONDS.toNanos(1) / rate, idleStrategy(longestParkNs));
            } else {
                load.warmUp(cluster, idleStrategy(longestParkNs));
                load.beginNs = System.nanoTime();
                load.endNs = load.beginNs + seconds(arguments[4]);
                load.run(cluster, idleStrategy(longestParkNs));
            }
        }
        load.print();
    }

    private static IdleStrategy idleStrategy(final long longestParkNs) {
        return new BackoffIdleStrategy(10, 5, 1_000, longestParkNs);
    }

    private static long seconds(final String text) {
        return (long)(Double.parseDouble(text) * 1e9);
    }

    /** Until the rates of windows in a row lie about their mean, or the limit has passed. */
    private void warmUp(final AeronCluster cluster, final IdleStrategy idleStrategy) {
        beginNs = Long.MAX_VALUE;
        final double[] rates = new double[WARM_UP_WINDOWS];
        final long limitNs = System.nanoTime() + WARM_UP_LIMIT_NS;
        for (int number = 0; System.nanoTime() < limitNs; number++) {
            final long before = answered;
            final long startNs = System.nanoTime();
            endNs = startNs + WARM_UP_WINDOW_NS;
            run(cluster, idleStrategy);
            rates[number % WARM_UP_WINDOWS] = (answered - before) * 1e9 / (System.nanoTime() - startNs);
            final double mean = Arrays.stream(rates).average().orElse(0);
            final boolean isSteady = Arrays.stream(rates).allMatch(rate -> Math.abs(rate - mean) <= WARM_UP_SPREAD * mean);
            if (number + 1 >= WARM_UP_WINDOWS && mean > 0 && isSteady) {
                return;
            }
        }
    }

    private void run(final AeronCluster cluster, final IdleStrategy idleStrategy) {
        while (System.nanoTime() < endNs) {
            int work = cluster.pollEgress();
            while (sentNs.size() < window && offer(cluster, System.nanoTime())) {
                work++;
            }
            idleStrategy.idle(work);
        }
    }

    private void runAtRate(final AeronCluster cluster, final long intervalNs, final IdleStrategy idleStrategy) {
        long dueNs = System.nanoTime() + intervalNs;
        while (System.nanoTime() < endNs) {
            int work = cluster.pollEgress();
            if (System.nanoTime() >= dueNs - AHEAD_NS) {
                while (System.nanoTime() < dueNs) {
                    Thread.onSpinWait();
                }
                if (offer(cluster, dueNs)) {
                    dueNs += intervalNs;
                    work++;
                }
            }
            idleStrategy.idle(work);
        }
    }

    private boolean offer(final AeronCluster cluster, final long countedFromNs) {
        request.putLong(0, nextId, ByteOrder.LITTLE_ENDIAN);
        if (cluster.offer(request, 0, request.capacity()) < 0) {
            return false;
        }
        sentNs.put(nextId++, countedFromNs);
        return true;
    }

    @Override
    public void onMessage(
        final long clusterSessionId,
        final long timestamp,
        final DirectBuffer buffer,
        final int offset,
        final int length,
        final Header header) {
        final long now = System.nanoTime();
        final long sent = sentNs.remove(buffer.getLong(offset, ByteOrder.LITTLE_ENDIAN));
        answered++;
        if (sent == NONE || sent < beginNs || now > endNs) {
            return;
        }
        if (measured == latenciesNs.length) {
            latenciesNs = Arrays.copyOf(latenciesNs, 2 * measured);
        }
        latenciesNs[measured++] = now - sent;
    }

    private void print() {
        final long[] ordered = Arrays.copyOf(latenciesNs, measured);
        Arrays.sort(ordered);
        System.out.printf(Locale.ROOT, "{\"per_second\": %f, \"p50_ms\": %f, \"p99_ms\": %f}%n",
            measured * 1e9 / (endNs - beginNs), at(ordered, 0.5), at(ordered, 0.99));
    }

    private static double at(final long[] ordered, final double share) {
        return ordered[Math.min(ordered.length - 1, (int)(ordered.length * share))] / 1e6;
    }
}
