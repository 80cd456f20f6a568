package upheaval;

import java.util.List;
import java.util.function.Consumer;
import sun.misc.Signal;

/** The signals that ask for an orderly end. */
final class Signals {
    static final List<String> NAMES = List.of("TERM", "INT");

    private Signals() {
    }

    /**
     * From now on signals go to {@code consumer} alone, by name. Up to Aeron 1.48 its barrier takes them when its class
     * is loaded, so that has to happen first.
     */
    static void take(final Consumer<String> consumer) throws ClassNotFoundException {
        Class.forName("org.agrona.concurrent.ShutdownSignalBarrier");
        for (final String name : NAMES) {
            Signal.handle(new Signal(name), signal -> consumer.accept("SIG" + signal.getName()));
        }
    }
}
