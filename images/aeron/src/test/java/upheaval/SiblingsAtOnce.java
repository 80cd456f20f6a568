package upheaval;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Threads of one process that look at once whether the archive of their member runs: {@code upheaval.SiblingsAtOnce FOLDER}. */
public final class SiblingsAtOnce {
    private static final int THREADS = 4;
    private static final int LOOKS = 2_000;

    private SiblingsAtOnce() {
    }

    public static void main(final String[] arguments) throws Exception {
        final Siblings siblings = new Siblings(Path.of(arguments[0]), Component.CONSENSUS);
        final Callable<Boolean> look = () -> {
            boolean hasDriver = false;
            for (int count = 0; count < LOOKS; count++) {
                hasDriver |= siblings.hasDriver();
            }
            return hasDriver;
        };
        final ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        final List<Future<Boolean>> seen = new ArrayList<>();
        for (int thread = 0; thread < THREADS; thread++) {
            seen.add(threads.submit(look));
        }
        threads.shutdown();
        for (final Future<Boolean> each : seen) {
            System.out.println(each.get());
        }
    }
}
