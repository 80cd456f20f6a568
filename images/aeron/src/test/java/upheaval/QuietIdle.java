package upheaval;

import io.aeron.cluster.ConsensusModule;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.agrona.concurrent.SleepingMillisIdleStrategy;

/**
 * The loop of a module that idles longer than the shortest stall, and then works for as long: {@code upheaval.QuietIdle
 * FOLDER}. The work is a stall, the idling is none.
 */
public final class QuietIdle {
    private static final long IDLE_MS = 100;
    private static final int CYCLES = 20;

    private QuietIdle() {
    }

    public static void main(final String[] arguments) throws Exception {
        try (Trace trace = new Trace(Path.of(arguments[0]).resolve("trace.jsonl"), 0, "all", "")) {
            final ModuleWatch watch = new ModuleWatch(trace, 0, new SleepingMillisIdleStrategy(IDLE_MS));
            watch.watch(new ConsensusModule.Context());
            for (int cycle = 0; cycle < CYCLES; cycle++) {
                watch.idle();
            }
            TimeUnit.MILLISECONDS.sleep(IDLE_MS);
            watch.idle();
        }
    }
}
