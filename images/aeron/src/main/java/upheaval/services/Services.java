package upheaval.services;

import java.util.Map;
import java.util.TreeMap;
import java.util.function.Supplier;

/** The services by their names. */
public final class Services {
    private static final Map<String, Supplier<StateMachine>> BY_NAME =
        new TreeMap<>(Map.of(
            "workbench", Workbench::new, "ledger", Ledger::new, "timers", Timers::new, "tally", Tally::new));

    private Services() {
    }

    /** Whether one has that name. */
    public static boolean has(final String name) {
        return BY_NAME.containsKey(name);
    }

    /** The names, for those who are to choose one. */
    public static String names() {
        return String.join(", ", BY_NAME.keySet());
    }

    /** A new one. Throws {@link IllegalArgumentException} for an unknown name. */
    public static StateMachine make(final String name) {
        final Supplier<StateMachine> found = BY_NAME.get(name);
        if (found == null) {
            throw new IllegalArgumentException("unknown service '" + name + "': use " + names());
        }
        return found.get();
    }
}
